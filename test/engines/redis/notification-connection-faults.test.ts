import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { createLocks } from "locktender";
import { redis } from "locktender/redis";
import type { FaultProxy } from "locktender/testing";
import { createSentinel } from "redis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { start } from "../../core/program.js";
import { type RedisSingle, startRedisSentinel, startRedisSingle } from "./server.js";
import { LIBRARIES, look, open, proxyTo, queued } from "./tools.js";

let server: RedisSingle;
beforeAll(async () => {
  server = await startRedisSingle();
});
afterAll(() => server.stop());

const HANDSHAKE = /\r\n(hello|client)\r\n/i;
const SUBSCRIBE = /\r\nsubscribe\r\n/i;
/** More than a test sees. */
const ATTEMPTS = 200;
/** The last of them are there for attempts that come late, or never. */
const SPOILING = { trapMs: Infinity };

/** What may happen to every attempt to make the connection for notifications, and how often it has. */
const TROUBLES: Readonly<Record<string, (proxy: FaultProxy, happened: () => void) => Promise<unknown>>> = {
  "is cut off": (proxy, happened) => proxy.cutBeforeReply(matches(HANDSHAKE)).then(happened),
  "is never answered": (proxy, happened) => proxy.holdBack(matches(HANDSHAKE)).caught.then(happened),
  "never gets its subscription": (proxy, happened) =>
    proxy.holdBack(matches(SUBSCRIBE)).caught.then(happened),
};

function matches(pattern: RegExp): (data: Buffer) => boolean {
  return (data) => pattern.test(data.toString("latin1"));
}

/** Every attempt from now on fails in that way, until the proxy is healed. */
function spoil(proxy: FaultProxy, trouble: string): () => number {
  let count = 0;
  const happened = () => void count++;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    TROUBLES[trouble]?.(proxy, happened).catch(() => undefined); // called off by heal() and close()
  }
  return () => count;
}

/** The connections that the server has, but for the one that asks. */
async function connectionsAt(client: Redis): Promise<string[]> {
  const own = String(await client.client("ID"));
  const lines = String(await client.client("LIST"))
    .trim()
    .split("\n");
  return lines.map((line) => /\bid=(\d+)/.exec(line)?.[1] ?? "").filter((id) => id !== own);
}

async function expectSubscriptions(client: Redis, prefix: string, count: number): Promise<void> {
  await expect.poll(() => client.pubsub("CHANNELS", `${prefix}:*`), { timeout: 10_000 }).toHaveLength(count);
}

const cases = LIBRARIES.flatMap((library) =>
  Object.keys(TROUBLES).map((trouble) => ({ library, trouble, prefix: `${library}-${trouble.length}` })),
);

describe.each(cases)(
  "a subscription whose connection $trouble, by $library",
  ({ library, trouble, prefix }) => {
    test("costs no commands, leaves no sockets behind, and waiters are served without it", async () => {
      const { proxy, url } = await proxyTo(server.url, undefined, SPOILING);
      const client = look(server.node.port);
      const holders = open({ url: server.url, library, prefix }, { ttl: "60s" });
      const holder = await holders.mutex("x").acquire();
      await expectSubscriptions(client, prefix, 1);
      const before = await connectionsAt(client);
      const locks = open({ url, library, prefix, timeout: "600ms" }, { ttl: "3s" });
      await locks.inspect("x"); // opens the connection for commands, and no subscription yet
      const [commands] = (await connectionsAt(client)).filter((id) => !before.includes(id));

      const attempts = spoil(proxy, trouble);
      const lease = await locks.mutex("y").acquire();
      const waiting = locks.mutex("x").acquire();
      waiting.catch(() => undefined);
      await queued(holders, "x", 1);
      await expect.poll(attempts, { timeout: 15_000 }).toBeGreaterThanOrEqual(3);
      await expect.poll(() => proxy.connections, { timeout: 5_000 }).toBeLessThanOrEqual(2);
      expect(lease.held).toBe(true);
      expect(await connectionsAt(client)).toContain(commands);

      await holder.release();
      const releasedAt = performance.now();
      expect((await waiting).held).toBe(true);
      expect(performance.now() - releasedAt, "sooner than by a poll").toBeLessThan(5_000);

      proxy.heal();
      await expectSubscriptions(client, prefix, 2);
      await locks.close({ drain: 0, abort: 0 });
      await expect.poll(() => proxy.connections, { timeout: 5_000 }).toBe(0);
    });
  },
);

describe.concurrent.each(cases)("a subscription whose connection $trouble, by $library", (one) => {
  const { library, trouble, prefix } = one;
  test("does not keep a program from ending, once it has closed", async (context) => {
    const { proxy, url } = await proxyTo(server.url, context.onTestFinished, SPOILING);
    const options = JSON.stringify({ url, library, prefix: `${prefix}-end`, timeout: "500ms" });
    const program = start(`
      const locks = createLocks(redis(${options}));
      await locks.inspect("x");
      process.once("SIGUSR2", async () => {
        clearInterval(alive);
        await locks.mutex("x").acquire();
        await locks.close();
        console.log("closed");
      });
      const alive = setInterval(() => {}, 1_000);
      console.log("connected");
    `);
    await program.printed("connected");
    const attempts = spoil(proxy, trouble);
    program.kill("SIGUSR2");
    expect(await program.ended).toMatchObject({
      code: 0,
      signal: null,
      out: "connected\nclosed\n",
      err: "",
    });
    expect(attempts()).toBeGreaterThan(0);
  });
});

test("subscriptions by a sentinel client of the caller that come too late are ended, all of them", async () => {
  const { masterName, master, sentinels, stop } = await startRedisSentinel();
  onTestFinished(stop);
  const sentinelRootNodes = sentinels.map(({ port }) => ({ host: "127.0.0.1", port }));
  const client = createSentinel({ name: masterName, sentinelRootNodes });
  client.on("error", () => {}); // the commands tell
  await client.connect();
  onTestFinished(() => client.destroy());
  const standing = () => client.listenerCount("topology-change");
  const before = standing();
  const locks = createLocks(redis({ client, prefix: "late", timeout: "150ms" }));
  const answered = async () => (await locks.inspect("x").catch(() => undefined)) !== undefined;
  await expect.poll(answered, { timeout: 5_000 }).toBe(true);

  master.process.pause();
  const asked = locks.mutex("x").acquire();
  // Long enough for several attempts, and too short for a failover.
  await sleep(700);
  master.process.resume();
  await (await asked).release();
  await expect.poll(standing, { timeout: 5_000 }).toBe(before + 1);
  await locks.close();
  await expect.poll(standing, { timeout: 5_000 }).toBe(before);
  await expect
    .poll(async () => client.sendCommand(false, ["PUBSUB", "CHANNELS", "late:*"]), { timeout: 5_000 })
    .toEqual([]);
});
