import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { connect } from "locktender";
import { fencedEval, fencedSet, fenceKey, type RedisLike } from "locktender/fence";
import { createClient, createCluster } from "redis";
import { afterAll, describe, expect, test } from "vitest";
import { shared } from "../servers/shared.js";

const { url } = await shared("redis");
const { nodes } = await shared("redis-cluster");

const look = new Redis(url);
const ioredis = new Redis(url);
const nodeRedis = await createClient({ url }).connect();
const ioredisCluster = new Redis.Cluster(nodes.map(({ host, port }) => ({ host, port })));
const rootNodes = nodes.map(({ host, port }) => ({ url: `redis://${host}:${port}` }));
const nodeRedisCluster = await createCluster({ rootNodes }).connect();
afterAll(async () => {
  for (const client of [look, ioredis, ioredisCluster]) client.disconnect();
  nodeRedis.destroy();
  nodeRedisCluster.destroy();
});

const SINGLE: readonly (readonly [string, RedisLike])[] = [
  ["ioredis", ioredis],
  ["node-redis", nodeRedis],
];
const CLUSTER: readonly (readonly [string, RedisLike])[] = [
  ["ioredis", ioredisCluster],
  ["node-redis", nodeRedisCluster],
];
const newName = () => `stock:${randomUUID()}`;
const GET = "return redis.call('GET', KEYS[1])";

describe.each([
  ...SINGLE,
  ...CLUSTER.map(([library, client]) => [`${library} on a cluster`, client] as const),
])("%s", (_, client) => {
  test("a token writes, again and again, until a newer one was seen; a stale one writes nothing", async () => {
    const name = newName();
    const key = `{${name}}:left`;
    // Beyond what a double holds: these would be one.
    const [old, next] = [9_007_199_254_740_992n, 9_007_199_254_740_993n];
    await fencedSet(client, { name, token: old }, key, "7");
    await fencedSet(client, { name, token: old }, key, "6");
    await fencedSet(client, { name, token: next.toString() }, key, "5");
    const late = fencedSet(client, { name, token: old }, key, "late");
    await expect(late).rejects.toMatchObject({ code: "stale-token", lock: name, token: old, highest: next });
    expect(await fencedEval(client, { name, token: next }, { script: GET, keys: [key] })).toBe("5");
  });
});

describe.each(SINGLE)("%s", (_, client) => {
  test("tokens of different lengths are compared as numbers", async () => {
    const name = newName();
    await fencedSet(client, { name, token: 10n }, name, "a");
    await expect(fencedSet(client, { name, token: 9n }, name, "b")).rejects.toMatchObject({ highest: 10n });
  });

  test("a script finds its own keys and arguments, as if it were alone", async () => {
    const script = "return { #KEYS, KEYS[1], KEYS[2], #ARGV, ARGV[1] }";
    const lease = { name: newName(), token: 1n };
    const answer = await fencedEval(client, lease, { script, keys: ["a", "b"], arguments: ["c"] });
    expect(answer).toEqual([2, "a", "b", 1, "c"]);
    expect(await fencedEval(client, lease, { script: "return #ARGV", keys: [] })).toBe(0);
  });

  test("an error of the script is the server's own", async () => {
    const lease = { name: newName(), token: 1n };
    const failing = fencedEval(client, lease, { script: "return redis.error_reply('MINE 5')", keys: [] });
    await expect(failing).rejects.toThrow(/^MINE 5/);
  });

  test("also one that looks like a fence's, but could not be: nothing newer was seen", async () => {
    const lease = { name: newName(), token: 9n };
    const script = "return redis.error_reply('STALETOKEN 7')";
    await expect(fencedEval(client, lease, { script, keys: [] })).rejects.toThrow(/^STALETOKEN 7/);
  });

  test("bytes stay bytes", async () => {
    const name = newName();
    await fencedSet(client, { name, token: 1n }, name, Buffer.from([0, 255, 128]));
    expect(await look.getBuffer(name)).toEqual(Buffer.from([0, 255, 128]));
  });

  test("a server that has forgotten the script gets it again", async () => {
    const name = newName();
    await fencedSet(client, { name, token: 1n }, name, "a");
    await look.script("FLUSH");
    await fencedSet(client, { name, token: 1n }, name, "b");
    expect(await look.get(name)).toBe("b");
  });
});

describe.each(CLUSTER)("%s on a cluster", (_, client) => {
  test("a key in another slot than its fence is refused, with what to do", async () => {
    const name = newName();
    const apart = fencedSet(client, { name, token: 1n }, `{other}:${name}`, "a");
    await expect(apart).rejects.toThrow(`give your keys the hash tag {${name}}`);
    await expect(apart).rejects.toMatchObject({ code: "invalid-option", cause: expect.any(Error) });
    await fencedSet(client, { name, token: 1n }, `{other}:${name}`, "a", { resource: "other" });
  });
});

describe("the fence's key", () => {
  test("is remembered for 30 days after the last write, or as long as it is told", async () => {
    const name = newName();
    const DAY_MS = 86_400_000;
    const write = (options?: { retention: "2h" | number }) =>
      fencedSet(ioredis, { name, token: 1n }, "a", "b", options);
    await write();
    expect(await look.pttl(fenceKey(name))).toBeGreaterThan(30 * DAY_MS - 60_000);
    await write({ retention: "2h" });
    expect(await look.pttl(fenceKey(name))).toBeLessThanOrEqual(7_200_000);
    await write({ retention: Number.POSITIVE_INFINITY });
    expect(await look.pttl(fenceKey(name))).toBe(-1);
    await expect(write({ retention: 1 })).rejects.toMatchObject({ code: "invalid-option" });
    await look.del(fenceKey(name));
  });

  test("has the prefix that the caller's client gives to all of them", async () => {
    const name = newName();
    const prefixed = new Redis(url, { keyPrefix: "app:" });
    await fencedSet(prefixed, { name, token: 3n }, name, "a");
    prefixed.disconnect();
    expect(await look.mget(`app:${name}`, `app:${fenceKey(name)}`)).toEqual(["a", "3"]);
  });
});

describe("invalid input", () => {
  const lease = { name: "a", token: 1n };

  test.each([undefined, {}, { evalsha: "no" }])("is refused as a client: %j", async (client) => {
    const refused = fencedSet(client as never, lease, "a", "b");
    await expect(refused).rejects.toMatchObject({ code: "invalid-option" });
  });

  const wrongArguments = { script: "return 1", keys: [], arguments: "abc" };
  test.each([undefined, "return 1", { script: "return 1" }, { keys: [] }, wrongArguments])(
    "is refused as a script: %j",
    async (script) => {
      const refused = fencedEval(ioredis, lease, script as never);
      await expect(refused).rejects.toMatchObject({ code: "invalid-option" });
    },
  );
});

describe("a lease", () => {
  test("writes while it is held, and fails without asking when it is known to be lost", async () => {
    await using locks = await connect("memory:");
    const lease = await locks.mutex(newName()).acquire();
    await fencedSet(ioredis, lease, lease.name, "a");
    await lease.release();
    await expect(fencedSet({} as RedisLike, lease, "a", "b")).rejects.toMatchObject({ code: "closed" });
    const misspelt = fencedSet(ioredis, { name: "a", token: 1n }, "a", "b", { ttl: 5 } as object);
    await expect(misspelt).rejects.toThrow(/there is no option "ttl"/);
  });
});
