import { afterAll, expect, test } from "vitest";
import { SCRIPTS } from "#lib/backends/redlock/node.js";
import type { Answer } from "#lib/core/backend.js";
import { askRedis, startRedisServers } from "../redis/server.js";
import { Quorum, request, voteOf } from "./tools.js";

const servers = await startRedisServers(5);
for (const port of servers.ports) await askRedis(port, "SCRIPT", "LOAD", SCRIPTS.settle.lua);
afterAll(() => servers.stop());

const isSettling = (chunk: Buffer) => chunk.includes(SCRIPTS.settle.sha);

test("a token is greater than all before also for a client that asks again because its second phase has failed", async () => {
  const quorum = await Quorum.on(servers.ports);
  const one = { ...request, ttlMs: 30_000, id: "one" };
  const two = { ...request, ttlMs: 30_000, id: "two" };
  const first = await quorum.backendBehind([0, 1, 2, 3]);
  const second = await quorum.backendBehind([0, 1, 2, 3, 4]);
  for (const { backend } of [first, second]) await backend.claim({ ...request, name: "b", weight: 1 });
  // Tickets will differ, and the clock of server 4 runs ahead of the others.
  const slowUs = Date.now() * 1_000 + 10_000_000;
  const fastUs = slowUs + 10_000_000;
  for (const place of [0, 1, 2]) await quorum.plant(place, "a", String(slowUs + place));
  await quorum.plant(4, "a", String(fastUs));

  // The first one has the vote of server 4, and what it asks of 2 and 3 is under way.
  for (const place of [0, 1]) first.proxies[place]?.refuse();
  const underWay = [2, 3].map((place) => first.proxies[place]?.holdBack((chunk) => chunk.includes("{a}")));
  const asked = first.backend.claim(one);
  await Promise.all(underWay.map((held) => held?.caught));
  await expect.poll(() => quorum.claims("a")).toEqual([0, 0, 0, 0, 1]);
  // The clock of server 4 jumps once more: there it is over.
  await quorum.plant(4, "a", String(fastUs + 1));

  // The second one has the votes of all but 3, and loses three of them when it tells what they amount to.
  const [at0, at1, at2, at3, at4] = second.proxies;
  at3?.refuse();
  const settling = [at0, at1].map((proxy) => proxy?.holdBack(isSettling));
  const failed = second.backend.claim(two).catch(String);
  await Promise.all(settling.map((held) => held?.caught));
  const withdrawing = at4?.holdBack((chunk) => chunk.includes("unused"));
  for (const proxy of [at0, at1]) proxy?.refuse();
  await withdrawing?.caught;
  at4?.refuse();
  expect(await failed).toMatch(/servers/);
  await expect.poll(() => quorum.claims("a")).toEqual([1, 1, 0, 0, 1]);

  for (const held of underWay) await held?.deliver();
  const before = await asked;
  await first.backend.release(one).catch(() => undefined);
  // It asks again, and has just the servers that still have what it had then.
  at2?.refuse();
  for (const proxy of [at0, at1, at4]) proxy?.heal();
  let after: Answer | undefined;
  const ask = async () => {
    after ??= await second.backend.claim(two).catch(() => undefined);
    return after?.state;
  };
  await expect.poll(ask, { timeout: 5_000 }).toBe("granted");
  if (before.state !== "granted" || after?.state !== "granted") return expect.unreachable();
  expect(after.ticket).toBeGreaterThan(before.ticket);
});

test("a server that is lost then costs nothing while enough others are there, though they had not voted yet", async () => {
  const quorum = await Quorum.on(servers.ports);
  // So long that all of the time for which it may go on asking is one that the lost server is waited for.
  const { locks, proxies } = await quorum.behind([0, 3, 4], { ttl: "9s" }, { timeout: "5s" });
  await locks.mutex("b").run(() => undefined);
  const aheadUs = Date.now() * 1_000 + 10_000_000;
  for (const place of [0, 1, 2, 3, 4]) await quorum.plant(place, "a", String(aheadUs + place));
  const [lost, ...slow] = proxies;
  for (const proxy of slow) proxy.delay({ toClientMs: 40 });
  const settling = lost?.holdBack(isSettling);
  expect(await locks.mutex("a").tryAcquire()).toMatchObject({ held: true });
  await settling?.caught;
});

test("a server that is lost between its vote and the second phase costs another round, not an error", async () => {
  const quorum = await Quorum.on(servers.ports);
  const { locks, proxies } = await quorum.behind([3]);
  await locks.mutex("a").run(() => undefined);
  const ahead = Date.now() * 1_000 + 10_000_000;
  for (const place of [1, 2]) await quorum.plant(place, "a", String(ahead));
  for (const place of [0, 4]) await quorum.plant(place, "a", voteOf(`other-${place}`));
  const lost = proxies[0]?.cutBeforeReply((chunk) => chunk.includes(`\n${ahead + 1}\r`));
  void lost?.then(() => proxies[0]?.refuse());
  expect(await locks.mutex("a").tryAcquire({ ttl: "9s" })).toBeNull();
  await lost;
});
