import { Redis } from "ioredis";
import { createLocks } from "locktender";
import { redis } from "locktender/redis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { startAddress } from "../../failover/address.js";
import { askRedis, type RedisServers, startRedisServers } from "./server.js";
import { LIBRARIES, open, queued, replicated } from "./tools.js";

let servers: RedisServers;
beforeAll(async () => {
  servers = await startRedisServers(2);
});
afterAll(() => servers?.stop());

/** An address that leads to a master with a replica, and what changes their roles while connections stay open. */
async function movingAddress() {
  const [old, next] = servers.nodes.map(({ port }) => port);
  if (old === undefined || next === undefined) throw new Error("two servers were started");
  await askRedis(old, "REPLICAOF", "NO", "ONE");
  await askRedis(next, "REPLICAOF", "127.0.0.1", String(old));
  const inStep = async () => String(await askRedis(next, "INFO", "replication")).includes("link_status:up");
  await expect.poll(inStep, { timeout: 20_000 }).toBe(true);
  const address = await startAddress(old);
  onTestFinished(() => address.stop());
  /** The roles change, and the address stays. */
  const demote = async () => {
    await replicated(old, 1);
    await askRedis(next, "REPLICAOF", "NO", "ONE");
    await askRedis(old, "REPLICAOF", "127.0.0.1", String(next));
    const stat = async (name: string) =>
      Number(new RegExp(`${name}:(\\d+)`).exec(String(await askRedis(old, "INFO", "stats")))?.[1]);
    const before = [await stat("total_connections_received"), await stat("total_commands_processed")];
    return {
      connections: async () => (await stat("total_connections_received")) - (before[0] ?? 0),
      commands: async () => (await stat("total_commands_processed")) - (before[1] ?? 0),
    };
  };
  const move = async () => address.moveTo(next);
  const failBack = async () => {
    await askRedis(old, "REPLICAOF", "NO", "ONE");
    await askRedis(next, "REPLICAOF", "127.0.0.1", String(old));
    address.moveTo(old);
  };
  return { url: `redis://127.0.0.1:${address.port}`, port: address.port, demote, move, failBack };
}

test.each(LIBRARIES)(
  "while the address still leads to the old master, by %s, few connections are made, and then it goes on",
  async (library) => {
    const { url, demote, move, failBack } = await movingAddress();
    const prefix = `lagging-${library}`;
    const holder = open({ url, library, prefix }, { ttl: "30s", wait: "30s", fair: true });
    const lease = await holder.mutex("a").acquire();
    const waits = Array.from({ length: 20 }, () => holder.mutex("a").run(() => undefined));
    await queued(holder, "a", 20);
    const { connections, commands } = await demote();
    for (const untilMs = performance.now() + 3_000; performance.now() < untilMs; ) {
      await holder
        .mutex("b")
        .tryAcquire()
        .catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(await connections()).toBeLessThan(40);
    expect(await commands()).toBeLessThan(2_000);
    await move();
    await lease.release();
    await Promise.all(waits);
    // Back again: this time the address is right at once.
    await failBack();
    expect(await holder.mutex("b").tryRun(() => "works")).toMatchObject({ ran: true });
  },
);

test("a client of the caller's moves by the setting that the page names", async () => {
  const { port, demote, move } = await movingAddress();
  const client = new Redis(port, "127.0.0.1", {
    reconnectOnError: (error) => error.message.startsWith("READONLY"),
  });
  onTestFinished(() => client.disconnect());
  const locks = createLocks(redis({ client, prefix: "own-client" }), { ttl: "10s" });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  await locks.mutex("a").run(() => undefined);
  await demote();
  await move();
  expect(await locks.mutex("a").run({ wait: "8s" }, () => "works")).toBe("works");
});

describe.each(LIBRARIES)(
  "a planned switchover, by %s: the master becomes a replica, connections stay open",
  (library) => {
    test("the next request works, a holder keeps its lock, and a waiter is notified by the new master", async () => {
      const { url, demote, move } = await movingAddress();
      const prefix = `switchover-${library}`;
      const holder = open({ url, library, prefix }, { ttl: "30s" });
      const waiter = open({ url, library, prefix }, { ttl: "30s" });
      const lease = await holder.mutex("a").acquire();
      const waiting = waiter.mutex("a").acquire({ wait: "20s" });
      await queued(holder, "a", 1);
      await demote();
      await move();
      expect(await holder.mutex("b").tryRun(() => "works")).toMatchObject({ ran: true });
      expect(await waiter.mutex("c").tryRun(() => "works")).toMatchObject({ ran: true });
      expect(lease.held).toBe(true);
      expect(await lease.release()).toBe(true);
      const next = await waiting;
      expect(next.token).toBeGreaterThan(lease.token);
    });
  },
);
