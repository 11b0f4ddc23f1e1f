import { afterAll, describe, expect, test } from "vitest";
import { WHOLE } from "#lib/core/claim.js";
import { askRedis, startRedisServers } from "../redis/server.js";
import { Quorum, request, sleep, voteOf } from "./tools.js";

const servers = await startRedisServers(5);
afterAll(() => servers.stop());

describe.each([3, 4, 5])("with %i servers, clients that take each other's votes", (count) => {
  const ports = servers.ports.slice(0, count);

  test("all get their turn, one at a time, and tokens grow", async () => {
    const quorum = await Quorum.on(ports);
    const clients = Array.from({ length: 8 }, () => quorum.open({ wait: "30s" }));
    await Promise.all(clients.map((locks) => locks.inspect("a")));
    let inside = 0;
    let last = 0n;
    const rounds = 6;
    const grants = clients.map(async (locks) => {
      for (let round = 0; round < rounds; round++) {
        await locks.mutex("a").run(async ({ token }) => {
          expect(++inside).toBe(1);
          expect(token).toBeGreaterThan(last);
          last = token;
          await sleep(1);
          inside--;
        });
      }
    });
    await Promise.all(grants);
  });

  test("of callers that only try, all at the same time, one gets the free lock", async () => {
    const quorum = await Quorum.on(ports);
    const clients = Array.from({ length: 5 }, () => quorum.open());
    await Promise.all(clients.map((locks) => locks.inspect("a")));
    for (let round = 0; round < 15; round++) {
      const name = `round:${round}`;
      const tries = await Promise.all(clients.map((locks) => locks.mutex(name).tryAcquire()));
      expect(tries.filter((lease) => lease !== null)).toHaveLength(1);
    }
  });
});

describe("what a quorum grants", () => {
  test("readers share, a writer excludes them, and each knows of the others", async () => {
    const backend = (await Quorum.on(servers.ports)).backend();
    const claim = (id: string, weight: number) => backend.claim({ ...request, id, weight });
    expect((await claim("reader-1", 1)).state).toBe("granted");
    expect((await claim("reader-2", 1)).state).toBe("granted");
    expect((await claim("writer", WHOLE)).state).toBe("refused");
    await backend.release({ name: "a", id: "reader-1" });
    await backend.release({ name: "a", id: "reader-2" });
    expect((await claim("writer", WHOLE)).state).toBe("granted");
    expect((await claim("reader-3", 1)).state).toBe("refused");
  });

  test("one phase is enough where all is well: five claims and five releases are all that is sent", async () => {
    const quorum = await Quorum.on(servers.ports);
    const locks = quorum.open();
    const mutex = locks.mutex("a");
    for (let round = 0; round < 20; round++) await mutex.run(() => undefined);
    const before = await requests();
    const cycles = 100;
    for (let round = 0; round < cycles; round++) await mutex.run(() => undefined);
    const asked = (await requests()) - before;
    // A busy machine may let some of them draw different tickets; then those are told.
    expect(asked / cycles).toBeGreaterThanOrEqual(10);
    expect(asked / cycles).toBeLessThan(11);
  });
});

async function requests(): Promise<number> {
  const infos = await Promise.all(servers.ports.map((port) => askRedis(port, "INFO", "commandstats")));
  const calls = infos.map((info) => Number(/cmdstat_evalsha:calls=(\d+)/.exec(String(info))?.[1] ?? 0));
  return calls.reduce((sum, count) => sum + count, 0);
}

test("a vote whose script was sent after the lock had been given back is given back, too", async () => {
  const quorum = await Quorum.on(servers.ports.slice(0, 3));
  const { locks, proxies } = await quorum.behind([2], { ttl: "20s" });
  await locks.mutex("b").run(() => undefined);
  await askRedis(quorum.ports[2] ?? 0, "SCRIPT", "FLUSH");
  proxies[0]?.delay({ toServerMs: 50 });
  await locks.mutex("a").run(() => undefined);
  await sleep(300);
  await quorum.nothingLeft("a", 1_000);
});

test("a vote that comes when the holder has left again keeps the server for its minHold", async () => {
  const quorum = await Quorum.on(servers.ports.slice(0, 3));
  const { locks, proxies } = await quorum.behind([2]);
  await locks.mutex("b").run(() => undefined);
  await askRedis(quorum.ports[2] ?? 0, "SCRIPT", "FLUSH");
  proxies[0]?.delay({ toClientMs: 50 });
  await locks.mutex("a").run({ minHold: "10s" }, () => undefined);
  await sleep(500);
  expect(await quorum.claims("a")).toEqual([1, 1, 1]);
});

test("a caller that only tries while votes are split gives up before what it may get is worth nothing", async () => {
  const quorum = await Quorum.on(servers.ports.slice(0, 3));
  const locks = quorum.open();
  await locks.mutex("a").run(() => undefined);
  const tookMs: number[] = [];
  for (let round = 0; round < 5; round++) {
    await quorum.plant(0, "a", voteOf("one"));
    await quorum.plant(1, "a", voteOf("two"));
    const startedAt = performance.now();
    expect(await locks.mutex("a").tryAcquire({ ttl: 150 })).toBeNull();
    tookMs.push(performance.now() - startedAt);
  }
  // All its rounds would take much longer. A busy machine may need more than a third of the ttl, but not every time.
  expect(Math.min(...tookMs)).toBeLessThan(120);
});

test("a caller that does not want it any more asks no further while votes are split", async () => {
  const quorum = await Quorum.on(servers.ports.slice(0, 3));
  const backend = quorum.backend();
  await backend.claim({ ...request, name: "b" });
  await quorum.plant(0, "a", voteOf("one"));
  await quorum.plant(1, "a", voteOf("two"));
  const before = await requests();
  const unwatch = backend.watch(request, () => undefined);
  const asked = backend.claim(request);
  unwatch();
  expect((await asked).state).toBe("refused");
  // All were asked once, and told once that it was for nothing.
  expect((await requests()) - before).toBeLessThanOrEqual(6);
});

test("readers of one process that come together are let in together", async () => {
  const quorum = await Quorum.on(servers.ports.slice(0, 3));
  const backend = quorum.backend();
  const read = async (id: string) => {
    let wake = () => {};
    backend.watch({ name: "a", id }, () => wake());
    for (;;) {
      const notified = new Promise<void>((resolve) => {
        wake = resolve;
      });
      const { state } = await backend.claim({ ...request, id, weight: 1, queue: true });
      if (state === "granted") return;
      await notified;
    }
  };
  const startedAt = performance.now();
  await Promise.all(["one", "two", "three", "four"].map(read));
  // One by one, each but the first would sleep for 250 ms at least.
  expect(performance.now() - startedAt).toBeLessThan(700);
});

test("where enough servers answer, but not the same, no caller is told that too few can be relied on", async () => {
  const quorum = await Quorum.on(servers.ports.slice(0, 3));
  const backend = quorum.backend({ timeout: 200 });
  await backend.claim(request);
  await expect.poll(() => quorum.claims("a")).toEqual([1, 1, 1]);
  await askRedis(quorum.ports[1] ?? 0, "DEL", quorum.headOf("a"));
  servers.nodes[2]?.process.pause();
  const failure = await backend.release(request).catch(String);
  servers.nodes[2]?.process.resume();
  expect(failure).toMatch(/2 of 3 servers have to say the same.*: Redis at \S+: no answer in time/);
});

test("heads that the scripts cannot read hide no other name in a listing", async () => {
  const ports = servers.ports.slice(0, 3);
  const quorum = await Quorum.on(ports);
  const locks = quorum.open();
  for (const place of ports.keys()) await quorum.plant(place, "bad", "x");
  await locks.mutex("good").acquire();
  const names: string[] = [];
  for await (const { name } of locks.list()) names.push(name);
  expect(names).toEqual(["good"]);
  await expect(locks.inspect("bad")).rejects.toMatchObject({ code: "backend" });
});
