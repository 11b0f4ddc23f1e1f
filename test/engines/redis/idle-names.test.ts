import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { Locks } from "locktender";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RedisSingle, startRedisSingle } from "./server.js";
import { LIBRARIES, look, open, queued } from "./tools.js";

let server: RedisSingle;
beforeAll(async () => {
  server = await startRedisSingle();
});
afterAll(() => server.stop());

/** An idle name of which more than this is left would be worth a question. */
const MOST_BYTES = 200;

async function keysOf(client: Redis, prefix: string): Promise<string[]> {
  return (await client.keys(`${prefix}:*`)).sort();
}

/** Everything that can happen to a name, in one go; at the end no claim is left. */
async function wholeLife(locks: Locks, other: Locks, name: string): Promise<void> {
  const mutex = locks.mutex(name);
  const lease = await mutex.acquire();
  expect(await other.mutex(name).tryAcquire()).toBeNull();
  const controller = new AbortController();
  const leaver = other.mutex(name).acquire({ signal: controller.signal });
  const next = other.mutex(name).acquire();
  await expect(other.mutex(name).acquire({ wait: 60 })).rejects.toMatchObject({ code: "timeout" });
  controller.abort(new Error("left"));
  await expect(leaver).rejects.toThrow("left");
  await lease.release();
  await (await next).release();
  expect(await (await mutex.acquire({ ttl: 100, renew: false })).release()).toBe(true);
  await mutex.run({ minHold: 50 }, () => undefined);
  await (await other.mutex(name).acquire()).release();
}

describe("scenario S16: idle names cost nothing after their retention", () => {
  test("an idle name costs one small key meanwhile, and then nothing", async () => {
    const locks = open({ url: server.url, prefix: "small", retention: "1s" });
    const client = look(server.node.port);
    const names = Array.from({ length: 500 }, (_, index) => `order:${index}`);
    await Promise.all(names.map((name) => locks.mutex(name).run(() => undefined)));
    const keys = await keysOf(client, "small");
    expect(keys).toHaveLength(500);
    const sizes = await Promise.all(keys.map((key) => client.memory("USAGE", key)));
    expect(Math.max(...sizes.map(Number))).toBeLessThan(MOST_BYTES);
    await expect.poll(() => keysOf(client, "small"), { timeout: 5_000 }).toEqual([]);
    await expect.poll(() => client.dbsize(), { timeout: 5_000 }).toBe(0);
  });

  test("a name that was forgotten while its last lease is remembered gets a greater token", async () => {
    const locks = open({ url: server.url, prefix: "long", retention: "50ms" });
    const client = look(server.node.port);
    const lease = await locks.mutex("held").acquire();
    await sleep(150);
    await lease.release();
    await expect.poll(() => keysOf(client, "long"), { timeout: 5_000 }).toEqual([]);
    const token = await locks.mutex("held").run((next) => next.token);
    expect(token).toBeGreaterThan(lease.token);
  });

  test.each(LIBRARIES)(
    "waiters, timeouts, tries, cancelled and fixed leases leave nothing else behind, by %s",
    async (library) => {
      const options = { url: server.url, library, prefix: `life-${library}`, retention: "1s" } as const;
      const [locks, other] = [open(options), open(options)];
      const client = look(server.node.port);
      const names = Array.from({ length: 20 }, (_, index) => `name {${index}}`);
      await Promise.all(names.map((name) => wholeLife(locks, other, name)));
      for (const key of await keysOf(client, options.prefix)) {
        expect(key.endsWith("}"), `${key} is not a head`).toBe(true);
        expect(await client.strlen(key)).toBeLessThan(20);
      }
      await expect.poll(() => keysOf(client, options.prefix), { timeout: 5_000 }).toEqual([]);
    },
  );

  test("a forced release leaves, beside the counter, only its reason, for a minute at most", async () => {
    const locks = open({ url: server.url, prefix: "forced", retention: "200ms" }, { ttl: "900ms" });
    const client = look(server.node.port);
    const lease = await locks.mutex("x").acquire();
    const next = locks.mutex("x").acquire();
    await queued(locks, "x", 1);
    await locks.forceRelease("x", { reason: "test" });
    await expect.poll(() => lease.signal.aborted, { timeout: 5_000 }).toBe(true);
    await (await next).release();
    await expect.poll(() => keysOf(client, "forced"), { timeout: 5_000 }).toEqual(["forced:{x}:forced"]);
    const leftMs = await client.pttl("forced:{x}:forced");
    expect(leftMs).toBeGreaterThan(0);
    expect(leftMs).toBeLessThanOrEqual(60_000);
  });

  test("names that only waiters and holders without a process know go by themselves, in one ttl and retention", async () => {
    const client = look(server.node.port);
    const locks = open({ url: server.url, prefix: "dead", retention: "200ms" }, { ttl: 400, fair: true });
    await locks.mutex("x").acquire();
    const waits = [1, 2, 3].map(() => locks.mutex("x").acquire());
    for (const wait of waits) wait.catch(() => undefined);
    await queued(locks, "x", 3);
    expect(await keysOf(client, "dead")).toHaveLength(3);
    // As a crash of all processes would: from here on nothing is renewed or released.
    await client.call("CLIENT", "PAUSE", "900", "WRITE");
    await locks.close({ drain: 0, abort: 0 }).catch(() => undefined);
    await expect.poll(() => keysOf(client, "dead"), { timeout: 5_000 }).toEqual([]);
  });
});

test("no key of ours is without an expiry at any moment of a busy day", async () => {
  const prefix = "busy";
  const client = look(server.node.port);
  const connections = LIBRARIES.map((library) =>
    open({ url: server.url, library, prefix, retention: "100ms" }, { ttl: 300 }),
  );
  let busy = true;
  const lives = connections.map(async (locks, index) => {
    const other = connections[1 - index] ?? locks;
    for (let round = 0; round < 4; round++) {
      await Promise.all([1, 2, 3].map((one) => wholeLife(locks, other, `${index}-${round}-${one}`)));
    }
  });
  const force = (async () => {
    for (let round = 0; busy; round++) {
      const lease = await connections[0]?.mutex("victim").acquire();
      await connections[1]?.forceRelease("victim", { reason: `round ${round}` });
      await lease?.release();
    }
  })();
  const seen = new Set<string>();
  const eternal = new Set<string>();
  const scan = (async () => {
    while (busy) {
      const keys = await keysOf(client, prefix);
      const replies = await client.pipeline(keys.map((key) => ["pttl", key])).exec();
      for (const [index, key] of keys.entries()) {
        seen.add(key.replace(/\{.*\}/, "{}"));
        if (replies?.[index]?.[1] === -1) eternal.add(key);
      }
    }
  })();
  await Promise.all(lives);
  busy = false;
  await Promise.all([force, scan]);
  const kinds = ["", ":claims", ":forced", ":queue"].map((kind) => `${prefix}:{}${kind}`);
  expect([...seen].sort()).toEqual(kinds);
  expect([...eternal]).toEqual([]);
});
