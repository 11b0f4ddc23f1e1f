import { afterAll, afterEach, describe, expect, test } from "vitest";
import { makeWrongClock } from "../../servers/clock.js";
import { askRedis, startRedisServers } from "../redis/server.js";
import { Quorum, sleep, voteOf } from "./tools.js";

const clock = await makeWrongClock();
const right = await startRedisServers(3);
const wrong = await startRedisServers(2, { env: clock.env });
afterAll(async () => {
  await Promise.all([right.stop(), wrong.stop()]);
  await clock.remove();
});
afterEach(() => clock.set(0));

const ports = [...right.ports, ...wrong.ports];
const HOUR_MS = 3_600_000;

/** What the time of a token would be, in milliseconds. */
const timeOf = (token: bigint): number => Number(token / 1_024n / 1_000n);

async function serverTimeMs(port: number): Promise<number> {
  const [seconds] = (await askRedis(port, "TIME")) as [string];
  return Number(seconds) * 1_000;
}

describe.each([
  ["forward", HOUR_MS],
  ["back", -HOUR_MS],
])("scenario S12: the clocks of two of five servers jump %s by an hour", (_, aheadMs) => {
  test("the holder keeps its lock, no other client gets it, and tokens go on as before", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "2s" });
    const locks = quorum.open({ ttl: "1s" });
    const lease = await locks.mutex("a").acquire();
    await clock.set(aheadMs);
    const [rightMs, wrongMs] = await Promise.all([serverTimeMs(ports[0] ?? 0), serverTimeMs(ports[4] ?? 0)]);
    expect(Math.abs(wrongMs - rightMs - aheadMs)).toBeLessThan(5_000);
    const others = quorum.open({ ttl: "1s" });
    for (let round = 0; round < 15; round++) {
      expect(await others.mutex("a").tryAcquire()).toBeNull();
      await sleep(100);
    }
    expect(lease.held).toBe(true);
    expect(await lease.release()).toBe(true);
    let last = lease.token;
    for (let round = 0; round < 20; round++) {
      const token = await (round % 2 ? locks : others).mutex("a").run((next) => next.token);
      expect(token).toBeGreaterThan(last);
      last = token;
    }
    // They stay at the time of the others where all five vote in time, and are never ahead of the fastest clock.
    expect(timeOf(last)).toBeLessThan(Math.max(rightMs, wrongMs) + 60_000);
    expect(timeOf(last)).toBeGreaterThan(rightMs - 60_000);
    await clock.set(0);
    for (let round = 0; round < 5; round++) {
      const token = await locks.mutex("a").run((next) => next.token);
      expect(token).toBeGreaterThan(last);
      last = token;
    }
  });
});

test("scenario S12: a lock that others had votes for when it was taken is soon on all servers, and bears it, too", async () => {
  const quorum = await Quorum.on(ports, { timeout: "5s" });
  for (const place of [2, 4]) await quorum.plant(place, "a", voteOf("other"));
  const lease = await quorum.open({ ttl: "20s" }).mutex("a").acquire();
  for (const place of [2, 4]) await askRedis(ports[place] ?? 0, "DEL", quorum.headOf("a"));
  await expect.poll(() => quorum.claims("a"), { timeout: 4_000 }).toEqual([1, 1, 1, 1, 1]);
  await clock.set(HOUR_MS);
  expect(await quorum.open().mutex("a").tryAcquire()).toBeNull();
  expect(lease.held).toBe(true);
  expect(await lease.release()).toBe(true);
  await quorum.nothingLeft("a", 1_000);
});

test("scenario S12: a claim that is granted while the clock of one server is wrong excludes all other clients", async () => {
  const quorum = await Quorum.on(ports, { maxTtl: "2s" });
  await clock.set(HOUR_MS);
  const lease = await quorum.open({ ttl: "1s" }).mutex("a").acquire();
  await clock.set(0);
  const other = quorum.open({ ttl: "1s" });
  for (let round = 0; round < 10; round++) {
    expect(await other.mutex("a").tryAcquire()).toBeNull();
    await sleep(50);
  }
  expect(await lease.release()).toBe(true);
  expect(await other.mutex("a").run(({ token }) => token)).toBeGreaterThan(lease.token);
});

test("scenario S12: tokens grow also when a majority had to count two clocks that are wrong", async () => {
  const quorum = await Quorum.on(ports);
  const [first] = right.nodes;
  await clock.set(HOUR_MS);
  first?.process.pause();
  // Of four servers that vote, two are an hour ahead: the third lowest of their tickets is, too.
  const ahead = await quorum
    .open()
    .mutex("a")
    .run(({ token }) => token);
  expect(timeOf(ahead)).toBeGreaterThan((await serverTimeMs(ports[1] ?? 0)) + HOUR_MS / 2);
  first?.process.resume();
  for (const node of wrong.nodes) node.process.pause();
  try {
    const next = await quorum
      .open()
      .mutex("a")
      .run(({ token }) => token);
    expect(next).toBeGreaterThan(ahead);
  } finally {
    for (const node of wrong.nodes) node.process.resume();
  }
});
