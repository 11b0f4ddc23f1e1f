import { setTimeout as sleep } from "node:timers/promises";
import { redis } from "locktender/redis";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { LockKeyCache } from "#lib/backends/redis/keys.js";
import type { Backend } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";
import { type RedisSingle, startRedisSingle } from "./server.js";
import { look } from "./tools.js";

let server: RedisSingle;
beforeAll(async () => {
  server = await startRedisSingle();
});
afterAll(() => server.stop());

/** What one script forgets, and more than that. */
const MOST_DEAD = 10_000;
const TOO_MANY = 10_100;
const TTL_MS = 8_000;

function backendFor(prefix: string): Backend {
  const backend = redis({ url: server.url, prefix, timeout: "30s" });
  onTestFinished(() => backend.close());
  return backend;
}

function ask(
  backend: Backend,
  name: string,
  id: string,
  ttlMs: number,
  more: { ticket?: bigint; queue?: boolean },
) {
  const owner = { instance: "i", host: "h", pid: 1 };
  const rest = { weight: WHOLE, capacity: WHOLE, fixed: false, minHoldMs: 0, owner, note: "" };
  return backend.claim({ name, id, ttlMs, queue: true, ...rest, ...more });
}

/** Many come whose processes die, and one whose place is the last to expire. */
async function crowd(backend: Backend, name: string, count: number, ttlMs: number): Promise<bigint> {
  const ids = Array.from({ length: count }, (_, index) => `id-${index}`);
  while (ids.length > 0) {
    await Promise.all(ids.splice(0, 300).map((id) => ask(backend, name, id, ttlMs, {})));
  }
  const answer = await ask(backend, name, "last", ttlMs + 100, {});
  if (answer.state !== "waiting") throw new Error(`the last one is ${answer.state}`);
  return answer.ticket;
}

test("a lock that a thousand have died on is free, and none of them comes back", async () => {
  const backend = backendFor("thousand");
  const ticket = await crowd(backend, "x", 1_000, 1_500);
  await crowd(backend, "y", 1_000, 1_500);
  await sleep(1_800);
  expect(await ask(backend, "x", "last", 10_000, { ticket })).toMatchObject({ state: "gone" });
  expect(await ask(backend, "y", "new", 10_000, { queue: false })).toMatchObject({ state: "granted" });
});

test("one renewal of many locks forgets no more dead claims than a script for one lock may", async () => {
  const backend = backendFor("together");
  const names = Array.from({ length: 20 }, (_, index) => `lock-${index}`);
  const each = TOO_MANY / names.length;
  const renewals = [];
  for (const name of names) {
    const held = await ask(backend, name, "holder", 60_000, {});
    if (held.state !== "granted") throw new Error(`the holder is ${held.state}`);
    await crowd(backend, name, each - 1, TTL_MS);
    renewals.push({ name, id: "holder", ticket: held.ticket, ttlMs: 60_000 });
  }
  await sleep(TTL_MS + 200);
  const client = look(server.node.port);
  const keys = new LockKeyCache("together");
  const counts = () => Promise.all(names.map((name) => client.hlen(keys.of(name).all[1] ?? "")));
  const dead = async () => (await counts()).reduce((sum, count) => sum + count - 1, 0);
  expect(await dead()).toBe(TOO_MANY);
  const held = names.map(() => ({ state: "held" }));
  expect(await backend.renew(renewals)).toMatchObject(held);
  expect(await dead()).toBe(TOO_MANY - MOST_DEAD);
  expect(await backend.renew(renewals)).toMatchObject(held);
  expect(await dead()).toBe(0);
});

test("of more dead than one script forgets, none comes back either", async () => {
  const backend = backendFor("more");
  const [asks, renews, leaves] = await Promise.all(
    ["asks", "renews", "leaves"].map((name) => crowd(backend, name, TOO_MANY, TTL_MS)),
  );
  await sleep(TTL_MS + 200);
  expect(await ask(backend, "asks", "last", 10_000, { ticket: asks ?? 0n })).toMatchObject({ state: "gone" });
  const renewal = { name: "renews", id: "last", ticket: renews ?? 0n, ttlMs: 500 };
  expect(await backend.renew([renewal])).toMatchObject([{ state: "gone" }]);
  expect(leaves).toBeGreaterThan(0n);
  expect(await backend.release({ name: "leaves", id: "last" })).toBe(false);
  for (const name of ["asks", "renews", "leaves"]) {
    await ask(backend, name, "try", 10_000, { queue: false });
    expect(await ask(backend, name, "again", 500, { queue: false }), name).toMatchObject({
      state: "refused",
    });
    for await (const { claims } of backend.list({ name }))
      expect(claims.map(({ id }) => id)).toEqual(["try"]);
  }
});
