import { redlock } from "locktender/redlock";
import { afterAll, expect, test } from "vitest";
import { quorumChannel } from "#lib/backends/redlock/keys.js";
import { LocalQueue } from "#lib/backends/redlock/local-queue.js";
import { askRedis, startRedisServers } from "../redis/server.js";
import { Quorum, request, urlOf, voteOf } from "./tools.js";

const servers = await startRedisServers(3);
afterAll(() => servers.stop());

test("a waiter that finds that some servers have let go asks again soon, and the more seldom the longer that lasts", async () => {
  const quorum = await Quorum.on(servers.ports);
  const backend = quorum.backend();
  const waits = { ...request, queue: true };
  for (const place of [0, 1]) await quorum.plant(place, "a", voteOf("holder"));
  backend.watch(waits, () => undefined);
  const gapsMs: number[] = [];
  for (let round = 0; round < 30; round++) {
    const answer = await backend.claim(waits);
    if (answer.state !== "refused") return expect.unreachable();
    gapsMs.push(answer.againInMs ?? Infinity);
  }
  expect(gapsMs[0]).toBeLessThan(10);
  expect(Math.max(...gapsMs)).toBeGreaterThan(200);
});

test("no waiter sleeps beyond the moment at which what is in the way runs out", () => {
  const line = new LocalQueue(() => () => undefined);
  line.watch("a", "me", () => undefined);
  expect(line.enter("a", "me")).toBe(true);
  const lateMs = redlock({ url: urlOf(servers.ports) }).traits.expiryGranularityMs;
  for (const held of [true, false])
    for (const free of [0, 1])
      for (let round = 0; round < 50; round++)
        expect(line.againInMs("a", { held, free, changeInMs: 5 })).toBeLessThan(5 + lateMs);
});

test("it is told also of a server that is heard when the others have refused", async () => {
  const quorum = await Quorum.on(servers.ports);
  const { backend, proxies } = await quorum.backendBehind([2]);
  await backend.claim({ ...request, name: "b" });
  for (const place of [0, 1]) await quorum.plant(place, "a", voteOf("holder"));
  let notifications = 0;
  const waits = { ...request, id: "waits", queue: true };
  backend.watch(waits, () => notifications++);
  await expect.poll(() => notifications).toBeGreaterThan(0);
  const before = notifications;
  proxies[0]?.delay({ toClientMs: 300 });
  expect(await backend.claim(waits)).toMatchObject({ state: "refused" });
  expect(notifications).toBe(before);
  await expect.poll(() => notifications).toBeGreaterThan(before);
});

test("a notification that comes before all servers have refused is heard", async () => {
  const quorum = await Quorum.on(servers.ports);
  const { backend, proxies } = await quorum.backendBehind([0, 1, 2]);
  await backend.claim({ ...request, name: "b" });
  let notifications = 0;
  const waits = { ...request, id: "waits", queue: true };
  backend.watch(waits, () => notifications++);
  // Once it listens, the waiter is notified; and where it listens is not delayed.
  await expect.poll(() => notifications).toBeGreaterThan(0);
  const listeners = await Promise.all(servers.ports.map((port) => listenersAt(port, quorum.prefix)));
  const holder = await quorum.open().mutex("a").acquire();
  for (const [place, proxy] of proxies.entries())
    if (listeners[place] === 0) proxy.delay({ toClientMs: 400 });
  const asked = backend.claim(waits);
  const [heard] = quorum.ports.filter((_, place) => listeners[place] === 1);
  await expect.poll(() => askRedis(heard ?? 0, "GET", quorum.headOf("a"))).toMatch(/^\d+w/);
  const before = notifications;
  await holder.release();
  expect((await asked).state).toBe("refused");
  await expect.poll(() => notifications).toBeGreaterThan(before);
});

async function listenersAt(port: number, prefix: string): Promise<number> {
  const [, count] = (await askRedis(port, "PUBSUB", "NUMSUB", quorumChannel(prefix))) as [string, number];
  return count;
}

/** One server has voted for another client so long ago, one is free, and one answers late. */
async function sharedVotes(agoMs: number, lateMs: number) {
  const quorum = await Quorum.on(servers.ports);
  const { backend, proxies } = await quorum.backendBehind([2]);
  await backend.claim({ ...request, name: "b" });
  const waits = { ...request, id: "waits", queue: true };
  backend.watch(waits, () => undefined);
  await quorum.plant(0, "a", voteOf("other", agoMs));
  proxies[0]?.delay({ toClientMs: lateMs });
  const startMs = performance.now();
  const answer = await backend.claim(waits);
  return { quorum, answer, tookMs: performance.now() - startMs };
}

test("attempts that share the votes do not wait for a server that stands still", async () => {
  const { quorum, answer, tookMs } = await sharedVotes(0, 1_500);
  expect(answer.state).toBe("refused");
  // It takes part again at once, and what the slow server may have granted is given back.
  if (answer.state === "refused") expect(answer.againInMs).toBeLessThan(200);
  expect(tookMs).toBeLessThan(150);
  await expect.poll(() => quorum.claims("a"), { timeout: 5_000 }).toEqual([1, 0, 0]);
});

test("beside an older vote, which may have been left behind, the answer of a slow server is waited for", async () => {
  const { answer } = await sharedVotes(1_000, 150);
  expect(answer.state).toBe("granted");
});
