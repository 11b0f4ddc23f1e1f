import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type RedisSingle, startRedisSingle } from "./server.js";
import { LIBRARIES, look, open, proxyTo, queued } from "./tools.js";

let server: RedisSingle;
beforeAll(async () => {
  server = await startRedisSingle();
});
afterAll(() => server.stop());

/** The claim of the only waiter, as the server keeps it. */
async function waiterOf(
  client: Redis,
  prefix: string,
  name: string,
): Promise<{ id: string; ticket: bigint }> {
  const [id = "", ticket = ""] = await client.zrevrange(`${prefix}:{${name}}:queue`, 0, 0, "WITHSCORES");
  return { id, ticket: BigInt(ticket) };
}

async function channelsOf(client: Redis, prefix: string): Promise<string[]> {
  return (await client.pubsub("CHANNELS", `${prefix}:*`)) as string[];
}

/** The only one, as soon as its subscription stands. */
async function channelOf(client: Redis, prefix: string): Promise<string> {
  await expect.poll(() => channelsOf(client, prefix), { timeout: 5_000, interval: 5 }).toHaveLength(1);
  return String((await channelsOf(client, prefix))[0]);
}

describe.each(LIBRARIES)("notifications, by %s", (library) => {
  const options = (prefix: string) => ({ url: server.url, library, prefix: `${library}-${prefix}` });

  test("one subscription on one connection serves the process, whatever the number of locks and waiters", async () => {
    const client = look(server.node.port);
    const locks = open(options("one"));
    const names = Array.from({ length: 100 }, (_, index) => `order:${index}`);
    await Promise.all(names.map((name) => locks.mutex(name).acquire()));
    const waits = names.map((name) => locks.mutex(name).acquire());
    for (const wait of waits) wait.catch(() => undefined);
    await Promise.all(names.map((name) => queued(locks, name, 1)));
    const channels = await channelsOf(client, `${library}-one`);
    expect(channels).toHaveLength(1);
    expect(await client.pubsub("NUMSUB", ...channels)).toEqual([channels[0], 1]);
    const subscribers = String(await client.call("CLIENT", "LIST", "TYPE", "pubsub"))
      .trim()
      .split("\n");
    expect(subscribers).toHaveLength(1);
    await locks.close({ drain: 0, abort: 0 });
    await expect.poll(() => channelsOf(client, `${library}-one`)).toEqual([]);
    const left = String(await client.call("CLIENT", "LIST"))
      .trim()
      .split("\n");
    expect(left, "only the test's own connection is left").toHaveLength(1);
  });

  test("when its connection is killed, waiters still get in, long before a heartbeat or a poll", async () => {
    const client = look(server.node.port);
    const holders = open(options("killed"), { ttl: "60s" });
    const locks = open(options("killed"), { ttl: "60s" });
    for (let round = 0; round < 3; round++) {
      const holder = await holders.mutex("x").acquire();
      const waiting = locks.mutex("x").acquire();
      await queued(holders, "x", 1);
      await client.call("CLIENT", "KILL", "TYPE", "pubsub");
      await holder.release(); // its notification reaches no subscription
      const releasedAt = performance.now();
      const lease = await waiting;
      expect(performance.now() - releasedAt).toBeLessThan(3_000);
      await lease.release();
    }
    // And the new subscription gets notifications, too.
    const holder = await holders.mutex("x").acquire();
    const waiting = locks.mutex("x").acquire();
    await queued(holders, "x", 1);
    await holder.release();
    expect((await waiting).held).toBe(true);
  });

  test.each(["+ping", "-ping"])("it stays while the server answers, if only to refuse: %s", async (right) => {
    const client = look(server.node.port);
    await client.call("ACL", "SETUSER", "asked", "reset", "on", ">secret", "~*", "&*", "+@all", right);
    const url = server.url.replace("://", "://asked:secret@");
    const locks = open({ ...options("asked"), url, timeout: "400ms" });
    await locks.mutex("x").acquire();
    await channelOf(client, `${library}-asked`);
    const connection = async () =>
      /^id=\d+/.exec(String(await client.call("CLIENT", "LIST", "TYPE", "pubsub")))?.[0];
    const before = await connection();
    await client.config("RESETSTAT");
    const asked = async () => {
      const found = /_ping:calls=(\d+).*rejected_calls=(\d+)/.exec(await client.info("commandstats"));
      return Number(found?.[1] ?? 0) + Number(found?.[2] ?? 0);
    };
    await expect.poll(asked, { timeout: 10_000 }).toBeGreaterThan(0);
    await sleep(500);
    expect(await connection()).toBe(before);
  });

  test("a notification for an older ticket of the same claim is not believed", async () => {
    const client = look(server.node.port);
    const locks = open(options("old"), { ttl: "60s" });
    const holder = await locks.mutex("x").acquire();
    let got = false;
    const waiting = locks.mutex("x").acquire();
    waiting.then(
      () => {
        got = true;
      },
      () => undefined,
    );
    await queued(locks, "x", 1);
    const { id, ticket } = await waiterOf(client, `${library}-old`, "x");
    const channel = await channelOf(client, `${library}-old`);
    for (const other of [ticket - 1n, ticket + 1n, holder.token / 1024n, 0n]) {
      expect(await client.publish(channel, `${other} ${id} granted`)).toBe(1);
      expect(await client.publish(channel, `${other} ${id} {"reason":"old news"}`)).toBe(1);
    }
    await sleep(100);
    expect(got).toBe(false);
    expect((await locks.inspect("x")).waiters).toHaveLength(1);
    expect(holder.held).toBe(true);
    await holder.release();
    expect((await waiting).token).toBe(ticket * 1024n);
  });

  test("garbage on the channel is ignored", async () => {
    const uncaught: unknown[] = [];
    const onUncaught = (error: unknown) => void uncaught.push(error);
    process.on("uncaughtException", onUncaught);
    onTestFinished(() => void process.off("uncaughtException", onUncaught));
    const client = look(server.node.port);
    const locks = open(options("garbage"), { ttl: "60s" });
    const holder = await locks.mutex("x").acquire();
    const waiting = locks.mutex("x").acquire();
    waiting.catch(() => undefined);
    await queued(locks, "x", 1);
    const { id, ticket } = await waiterOf(client, `${library}-garbage`, "x");
    const channel = await channelOf(client, `${library}-garbage`);
    const garbage = [
      "",
      " ",
      "granted",
      `${id}`,
      `x ${id} granted`,
      `-1 ${id} granted`,
      `${ticket} nobody granted`,
    ];
    const broken = [
      "",
      "grante",
      "granted ",
      "{",
      "null",
      "7",
      '"text"',
      "[]",
      '{"reason":5}',
      "\u0000\uffff",
    ];
    for (const text of [...garbage, ...broken.map((rest) => `${ticket - 1n} ${id} ${rest}`)]) {
      expect(await client.publish(channel, text)).toBe(1);
    }
    await client.publish(channel, Buffer.from([0xff, 0xfe, 0x20, 0x00]));
    await client.publish(channel, "x".repeat(1_000_000));
    await sleep(50);
    expect(uncaught).toEqual([]);
    expect(holder.held).toBe(true);
    expect((await locks.inspect("x")).waiters).toHaveLength(1);
    await holder.release();
    expect((await waiting).held).toBe(true);
  });

  test("what only looks like the end of a claim does not end it", async () => {
    const client = look(server.node.port);
    const locks = open(options("halves"), { ttl: "60s" });
    await locks.mutex("x").acquire();
    const waiting = locks.mutex("x").acquire();
    waiting.catch(() => undefined);
    await queued(locks, "x", 1);
    const { id, ticket } = await waiterOf(client, `${library}-halves`, "x");
    const channel = await channelOf(client, `${library}-halves`);
    for (const rest of ["", "{", "null", "7"]) await client.publish(channel, `${ticket} ${id} ${rest}`);
    await sleep(50);
    const [waiter] = (await locks.inspect("x")).waiters;
    expect(waiter?.token, "it kept its place").toBe(ticket * 1024n);
  });

  test("a subscription that came too late to be of use does not live on", async () => {
    const { proxy, url } = await proxyTo(server.url);
    const locks = open({ ...options("late"), url, timeout: "300ms" }, { ttl: "60s" });
    const held = proxy.holdBack((data) => /subscribe/i.test(data.toString("latin1")));
    const holder = await locks.mutex("x").acquire();
    await held.caught;
    await sleep(500);
    await held.deliver().catch(() => undefined); // its connection may be closed already
    // Waiters do without it meanwhile: another one stands soon.
    const waiting = locks.mutex("x").acquire();
    await queued(locks, "x", 1);
    await holder.release();
    expect((await waiting).held).toBe(true);
    await locks.close({ drain: 0, abort: 0 });
    await expect.poll(() => proxy.connections, { timeout: 3_000 }).toBe(0);
  });
});
