import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { afterAll, describe, expect, test } from "vitest";
import { shared } from "../../servers/shared.js";

// What Redis does, where our scripts depend on it. A failure here means: read the scripts again, not this test.

const client = new Redis((await shared("redis")).url);
const PREFIX = `assumptions-${process.pid}`;
const key = (name: string) => `${PREFIX}:{${name}}`;
afterAll(async () => {
  const keys = await client.keys(`${PREFIX}:*`);
  if (keys.length > 0) await client.del(...keys);
  client.disconnect();
});

const run = (lua: string, keys: string[] = [], ...args: string[]) =>
  client.eval(lua, keys.length, ...keys, ...args);

describe("time", () => {
  test("a script may ask for the TIME and write afterwards; it is the server's, in two texts", async () => {
    const reply = await run(
      `local time = redis.call('TIME')
       redis.call('SET', KEYS[1], time[1], 'PX', 5000)
       return { type(time[1]), type(time[2]), time[1] * 1000000 + time[2] }`,
      [key("time")],
    );
    const [seconds, micros, now] = reply as [string, string, number];
    expect([seconds, micros]).toEqual(["string", "string"]);
    const [after, rest] = await client.time();
    expect(Number(after) * 1_000_000 + Number(rest)).toBeGreaterThan(now);
    expect(await client.get(key("time"))).toBe(String(Math.floor(now / 1_000_000)));
  });

  test("times and tickets in µs are whole in a double, and %d prints them whole", async () => {
    const year2255 = 2n ** 53n - 1n;
    for (const ticket of [0n, 1n, 1_700_000_000_000_001n, 4_102_444_800_000_001n, year2255]) {
      const reply = await run(
        `local n = tonumber(ARGV[1])
         return { string.format('%d', n), string.format('%d', n - 1 + 1), n == n + 0 and 1 or 0 }`,
        [],
        String(ticket),
      );
      expect(reply).toEqual([String(ticket), String(ticket), 1]);
    }
    const parts = await run(`return string.format('%d', '1700000000' * 1000000 + '000001')`);
    expect(parts).toBe("1700000000000001");
  });

  test("an integer that a script returns arrives whole, and a fraction is cut off", async () => {
    expect(await run(`return { 1700000000000001, 4102444800000001, 1.9, -1.9 }`)).toEqual([
      1_700_000_000_000_001, 4_102_444_800_000_001, 1, -1,
    ]);
  });

  test("scores in µs are kept, compared and returned whole", async () => {
    const [low, high] = ["1700000000000001", "1700000000000002"];
    const reply = await run(
      `redis.call('ZADD', KEYS[1], tonumber(ARGV[1]), 'low', tonumber(ARGV[2]), 'high')
       redis.call('PEXPIRE', KEYS[1], 5000)
       local after = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%d', tonumber(ARGV[1])), '+inf', 'LIMIT', 0, 1)
       local upTo = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', tonumber(ARGV[1]))
       local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
       return { after[1], #upTo, string.format('%d', tonumber(first[2])) }`,
      [key("scores")],
      low,
      high,
    );
    expect(reply).toEqual(["high", 1, low]);
  });
});

describe("expiry", () => {
  const nowMs = async () => {
    const [seconds, micros] = await client.time();
    return Number(seconds) * 1_000 + Number(micros) / 1_000;
  };

  test("SET with PXAT sets value and expiry in one step; one in the past leaves no key", async () => {
    const at = Math.ceil(await nowMs()) + 5_000;
    await client.set(key("pxat"), "x", "PXAT", at);
    expect(await client.pexpiretime(key("pxat"))).toBe(at);
    await client.set(key("pxat"), "x", "PXAT", Math.floor(await nowMs()) - 1_000);
    expect(await client.exists(key("pxat"))).toBe(0);
  });

  test("SET without an expiry takes an old one away, and HSET and ZADD leave it alone", async () => {
    await client.set(key("set"), "x", "PX", 5_000);
    await client.set(key("set"), "y");
    expect(await client.pttl(key("set"))).toBe(-1);
    await client.hset(key("hash"), "a", "1");
    await client.pexpire(key("hash"), 5_000);
    await client.hset(key("hash"), "b", "2");
    expect(await client.pttl(key("hash"))).toBeGreaterThan(0);
    await client.zadd(key("zset"), 1, "a");
    await client.pexpire(key("zset"), 5_000);
    await client.zadd(key("zset"), 2, "b");
    expect(await client.pttl(key("zset"))).toBeGreaterThan(0);
  });

  test("PEXPIREAT replaces an expiry, also by a sooner one, and one in the past deletes the key", async () => {
    const at = Math.ceil(await nowMs());
    await client.hset(key("at"), "a", "1");
    for (const later of [9_000, 3_000, 6_000]) {
      await client.pexpireat(key("at"), at + later);
      expect(await client.pexpiretime(key("at"))).toBe(at + later);
    }
    expect(await client.pexpireat(key("at"), at - 1)).toBe(1);
    expect(await client.exists(key("at"))).toBe(0);
    expect(await client.pexpireat(key("at"), at + 1_000)).toBe(0);
  });

  test("an expired key is gone at its millisecond for every client that asks, not when the server sweeps", async () => {
    await client.set(key("soon"), "x", "PX", 30);
    await sleep(40);
    expect(await client.get(key("soon"))).toBeNull();
  });

  test("a hash or a sorted set that loses its last member is gone, with its expiry", async () => {
    await client.hset(key("last"), "a", "1");
    await client.pexpire(key("last"), 5_000);
    await client.hdel(key("last"), "a");
    expect(await client.exists(key("last"))).toBe(0);
    await client.hset(key("last"), "b", "1");
    expect(await client.pttl(key("last"))).toBe(-1);
  });
});

describe("scripts", () => {
  test("a script that fails in the middle keeps what it has written: every order of writes must be sound", async () => {
    const broken = run(
      `redis.call('SET', KEYS[1], 'half', 'PX', 5000) return redis.call('HGET', KEYS[1], 'x')`,
      [key("half")],
    );
    await expect(broken).rejects.toThrow(/^WRONGTYPE/);
    expect(await client.get(key("half"))).toBe("half");
  });

  test("an unknown script is NOSCRIPT, alone and in the middle of a pipeline whose other commands run", async () => {
    const sha = "0".repeat(40);
    await expect(client.evalsha(sha, 0)).rejects.toThrow(/^NOSCRIPT/);
    const replies = await client.pipeline([["ping"], ["evalsha", sha, "0"], ["ping"]]).exec();
    expect(replies?.map(([error, value]) => (error === null ? value : error.message.split(" ")[0]))).toEqual([
      "PONG",
      "NOSCRIPT",
      "PONG",
    ]);
  });

  test("EVAL makes a script known, so that the next EVALSHA finds it", async () => {
    const lua = `return '${PREFIX}'`;
    const sha = (await run(`return redis.sha1hex(ARGV[1])`, [], lua)) as string;
    expect(await run(lua)).toBe(PREFIX);
    expect(await client.evalsha(sha, 0)).toBe(PREFIX);
  });

  test("a message that a script publishes is sent once, to the clients that listen at that moment", async () => {
    const subscriber = client.duplicate();
    const heard: string[] = [];
    subscriber.on("message", (_channel, text: string) => heard.push(text));
    await subscriber.subscribe(`${PREFIX}:channel`);
    expect(await run(`return redis.call('PUBLISH', ARGV[1], 'x')`, [], `${PREFIX}:channel`)).toBe(1);
    await expect.poll(() => heard).toEqual(["x"]);
    subscriber.disconnect();
    await expect
      .poll(() => run(`return redis.call('PUBLISH', ARGV[1], 'y')`, [], `${PREFIX}:channel`))
      .toBe(0);
  });
});
