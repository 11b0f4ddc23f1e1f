import fc from "fast-check";
import { Cluster } from "ioredis";
import { afterAll, describe, expect, test } from "vitest";
import { LockKeyCache } from "#lib/backends/redis/keys.js";
import { decodeName, encodeName, nameOfKey } from "#lib/clients/redis/client.js";
import { canonicalName } from "#lib/core/names.js";
import { shared } from "../../servers/shared.js";
import { LIBRARIES, open } from "./tools.js";

const PREFIX = `keys-${process.pid}`;
const keyCache = new LockKeyCache(PREFIX);
const { url } = await shared("redis-cluster");
const hosts = url.replace("redis+cluster://", "").split(",");
const cluster = new Cluster(hosts.map((host) => `redis://${host}`));
afterAll(() => cluster.disconnect());

/** Names as people write them, and as no person would: above all with what means something to Redis. */
const anyText = fc.oneof(
  fc.string({ unit: fc.constantFrom(..."{}%:*?[]\\^-ab7BD25é€ 🔒"), minLength: 1, maxLength: 12 }),
  fc.string({ unit: "binary", minLength: 1, maxLength: 60 }),
);
const name = anyText.filter((text) => {
  try {
    return canonicalName(text) === text;
  } catch {
    return false;
  }
});

async function slotsOf(keys: readonly string[]): Promise<number[]> {
  const [node] = cluster.nodes("master");
  const replies = await node?.pipeline(keys.map((key) => ["cluster", "keyslot", key])).exec();
  return (replies ?? []).map(([error, slot]) => {
    if (error !== null) throw error;
    return slot as number;
  });
}

describe("scenario S18: the keys of one lock live on one slot of a cluster", () => {
  test("whatever the name", async () => {
    await expect.poll(() => cluster.nodes("master").length, { timeout: 10_000 }).toBeGreaterThan(0);
    await fc.assert(
      fc.asyncProperty(fc.array(name, { minLength: 20, maxLength: 50 }), async (names) => {
        const slots = await slotsOf(names.flatMap((one) => keyCache.of(one).all));
        for (const [index, one] of names.entries()) {
          const own = slots.slice(index * 4, index * 4 + 4);
          expect(own).toHaveLength(4);
          expect(new Set(own).size, JSON.stringify(one)).toBe(1);
        }
      }),
      { numRuns: 20 },
    );
  });

  test("and different names are spread over the slots", async () => {
    const keys = Array.from({ length: 200 }, (_, index) => keyCache.of(`order:{${index}}`).head);
    expect(new Set(await slotsOf(keys)).size).toBeGreaterThan(150);
  });

  test.each(LIBRARIES)(
    "so that every name can be locked, waited for, seen and given back, by %s",
    async (library) => {
      const locks = open({ url, library, prefix: `${PREFIX}-${library}` }, { ttl: "60s" });
      const names = [
        "{",
        "}",
        "{}",
        "}{",
        "{a}{b}",
        "a}b",
        "%7B",
        "%",
        "{{x}}",
        "*",
        "[a-z]",
        "\\",
        "a b",
        "é€🔒",
      ];
      for (const one of names) {
        const lease = await locks.mutex(one).acquire();
        const next = locks.mutex(one).acquire();
        await expect.poll(async () => (await locks.inspect(one)).waiters.length, { interval: 5 }).toBe(1);
        await lease.release();
        expect((await next).token).toBeGreaterThan(lease.token);
      }
      const found: string[] = [];
      for await (const resource of locks.list()) found.push(resource.name);
      expect(found.sort()).toEqual([...names].sort());
    },
  );
});

describe("names and keys", () => {
  test("two different names never share a key", () => {
    fc.assert(
      fc.property(name, name, (one, other) => {
        fc.pre(one !== other);
        const shared = keyCache.of(one).all.filter((key) => keyCache.of(other).all.includes(key));
        expect(shared).toEqual([]);
      }),
      { numRuns: 3_000 },
    );
  });

  test("a name is found again in its key, and in no other key of its lock", () => {
    fc.assert(
      fc.property(name, (one) => {
        const [head = "", ...rest] = keyCache.of(one).all;
        expect(decodeName(encodeName(one))).toBe(one);
        expect(nameOfKey(PREFIX, head)).toBe(one);
        for (const key of rest) expect(nameOfKey(PREFIX, key)).toBeUndefined();
        expect(nameOfKey(`${PREFIX}x`, head)).toBeUndefined();
      }),
      { numRuns: 2_000 },
    );
  });

  test("the pattern that lists by prefix matches, on the server, exactly the names that begin so", async () => {
    const locks = open({ url, prefix: `${PREFIX}[*]?-list` }, { ttl: "60s" });
    const names = ["a*", "a?", "a[b]", "a\\", "ab", "a^", "b*", "{a*}", "a{*", "%2A", "a%7B"];
    await Promise.all(names.map((one) => locks.mutex(one).acquire()));
    for (const prefix of ["", "a", "a*", "a?", "a[", "a\\", "{", "a{", "%", "a%", "*", "?", "zz"]) {
      const found: string[] = [];
      for await (const resource of locks.list({ prefix })) found.push(resource.name);
      const expected = names.filter((one) => one.startsWith(prefix)).sort();
      expect(found.sort(), JSON.stringify(prefix)).toEqual(expected);
    }
  });
});
