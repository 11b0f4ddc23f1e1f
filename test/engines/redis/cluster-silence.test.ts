import { setTimeout as sleep } from "node:timers/promises";
import { Cluster } from "ioredis";
import { createLocks, type Locks } from "locktender";
import type { Backend } from "locktender/core";
import { type RedisOptions, redis } from "locktender/redis";
import { createCluster } from "redis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ownSockets } from "../../support/own-sockets.js";
import { askRedis, type RedisCluster, type RedisNode, startRedisCluster } from "./server.js";
import { LIBRARIES, type Library, nameOn, open, queued } from "./tools.js";

/** It has a replica, which is promoted a second or two after the others have taken it for dead. */
const REPLICATED = 0;
/** No replica takes its place: as long as it is silent, its slots are not served. */
const ALONE = 1;
const HEALTHY = 2;
const REPLICA = 3;
const NODE_TIMEOUT_MS = 2_000;
/** It takes 3 or 4 s; but an election that fails is repeated only after four times the timeout. */
const PROMOTED_WITHIN_MS = 30_000;
const SERVED_WITHIN_MS = 20_000;
/** So long that no heartbeat comes to the aid of a waiter. One that is not notified asks again after 6 s. */
const TTL = "5m";
const PROMPTLY_MS = 2_000;
/** The subscription may be tried at the silent node, by chance even several times. */
const NOTIFIED_AGAIN_WITHIN_MS = 25_000;

let cluster: RedisCluster;
beforeAll(async () => {
  cluster = await startRedisCluster({ withReplica: [REPLICATED], nodeTimeoutMs: NODE_TIMEOUT_MS });
  // As large clusters are run: a cluster that has lost one master still serves the slots of the others.
  for (const { port } of [...cluster.nodes, ...cluster.replicas]) {
    await askRedis(port, "CONFIG", "SET", "cluster-require-full-coverage", "no");
  }
});
/** They live through several tests. */
const opened: Locks[] = [];
afterAll(async () => {
  await closeAll(opened);
  await cluster.stop();
});

async function closeAll(all: readonly Locks[]): Promise<void> {
  await Promise.all(all.map((locks) => locks.close({ drain: 0, abort: 0 })));
}

function stay(options: RedisOptions): Locks {
  const locks = createLocks(redis(options), { ttl: TTL });
  opened.push(locks);
  return locks;
}

function sockets(): number {
  return ownSockets([...cluster.nodes, ...cluster.replicas].map(({ port }) => port));
}

function node(index: number): RedisNode {
  const found = [...cluster.nodes, ...cluster.replicas][index];
  if (found === undefined) throw new Error(`the cluster has no node ${index}`);
  return found;
}

async function replication(index: number): Promise<string> {
  return String(await askRedis(node(index).port, "INFO", "replication"));
}

/** Replicas get what is written in its order: a replica that has got so far has all that was written before. */
async function replicated(): Promise<void> {
  const written = Number(/master_repl_offset:(\d+)/.exec(await replication(REPLICATED))?.[1]);
  const got = async () => Number(/slave0:.*,offset=(\d+)/.exec(await replication(REPLICATED))?.[1]);
  await expect.poll(got, { timeout: 10_000 }).toBeGreaterThanOrEqual(written);
}

/** With a short ttl: a claim that was given up may still be granted, when no caller is there to release it. */
async function runs(locks: Locks, name: string): Promise<boolean> {
  return (await locks.mutex(name).tryRun({ ttl: "2s" }, () => undefined)).ran;
}

/** How long the waiter had to wait after the release. */
async function handOverMs(from: Locks, to: Locks, name: string): Promise<number> {
  const holder = await from.mutex(name).acquire();
  const waiting = to.mutex(name).acquire();
  await queued(from, name, 1);
  await holder.release();
  const releasedAt = performance.now();
  await (await waiting).release();
  return performance.now() - releasedAt;
}

/** In both directions. */
async function areNotified(one: Locks, other: Locks, name: string, title: string): Promise<void> {
  const options = { timeout: NOTIFIED_AGAIN_WITHIN_MS, interval: 1, message: title };
  await expect.poll(() => handOverMs(one, other, name), options).toBeLessThan(PROMPTLY_MS);
  await expect.poll(() => handOverMs(other, one, name), options).toBeLessThan(PROMPTLY_MS);
}

/** A request of its own, without what locks do around it. */
async function ask(backend: Backend, name: string): Promise<void> {
  await backend.list({ name })[Symbol.asyncIterator]().next();
}

test.each(LIBRARIES)(
  "%s: closing while it connects to a node leaves no connection behind",
  async (library) => {
    // With "accept" it does not ask each node for its policy, and so is not connected to all of them.
    const options = { url: cluster.url, library, prefix: "connecting", eviction: "accept" } as const;
    const name = await nameOn(cluster, HEALTHY, options.prefix, "first");
    const elsewhere = await nameOn(cluster, ALONE, options.prefix, "second");
    const backends = Array.from({ length: 20 }, () => redis(options));
    for (const backend of backends) await ask(backend, name);
    await Promise.all(
      backends.map(async (backend, index) => {
        const asked = ask(backend, elsewhere).catch(() => undefined);
        // In the turn in which the connection is begun: it cannot stand before the next one.
        for (let step = 0; step < index; step++) await undefined;
        await backend.close();
        await asked;
      }),
    );
    await expect.poll(sockets, { timeout: 5_000 }).toBe(0);
  },
);

const HOSTS = ["all hosts", "only the silent host"] as const;

/** Two users of locks on every node. The locks of those that stay are taken all the time. */
async function settle(library: Library, hosts: (typeof HOSTS)[number], stop: AbortSignal) {
  const title = `${library}, ${hosts} in the URL`;
  const prefix = title.replaceAll(/\W+/g, "-");
  const url = hosts === "all hosts" ? cluster.url : `redis+cluster://127.0.0.1:${node(REPLICATED).port}`;
  const options = { url, library, prefix, timeout: "1s" } as const;
  const [locks, others] = [stay(options), stay(options)];
  const everywhere = (base: string) =>
    Promise.all([REPLICATED, ALONE, HEALTHY].map((index) => nameOn(cluster, index, prefix, base)));
  const kept = await Promise.all((await everywhere("kept")).map((name) => locks.mutex(name).acquire()));
  const waits = kept.map(({ name }) => others.mutex(name).acquire({ wait: "60s" }));
  for (const wait of waits) wait.catch(() => undefined);
  for (const { name } of kept) await queued(locks, name, 1);
  const [asked = "", ...elsewhere] = await everywhere("asked");
  const busy = Promise.all(
    elsewhere.map(async (name) => {
      for (; !stop.aborted; await sleep(20)) expect(await runs(locks, name)).toBe(true);
    }),
  );
  busy.catch(() => undefined);
  return { title, locks, others, kept, waits, busy, asked, everywhere };
}

describe("one master of a cluster falls silent, and its replica is promoted", () => {
  let parties: Awaited<ReturnType<typeof settle>>[];

  test("its locks are served again, and a client that is busy elsewhere notices nothing", async () => {
    const stop = new AbortController();
    const cases = LIBRARIES.flatMap((library) => HOSTS.map((hosts) => [library, hosts] as const));
    parties = await Promise.all(cases.map(([library, hosts]) => settle(library, hosts, stop.signal)));
    await replicated();
    node(REPLICATED).process.pause();
    let promotedAtMs = Infinity;
    const isServed = async (user: Locks, name: string) => {
      while (!(await runs(user, name).catch(() => false))) {
        if (performance.now() > promotedAtMs + SERVED_WITHIN_MS) return false;
        await sleep(20);
      }
      return true;
    };
    const asking = parties.map(async ({ title, locks, others, asked }) => ({
      title,
      served: await Promise.all([locks, others].map((user) => isServed(user, asked))),
    }));
    await expect.poll(() => replication(REPLICA), { timeout: PROMOTED_WITHIN_MS }).toContain("role:master");
    promotedAtMs = performance.now();
    for (const { title, served } of await Promise.all(asking)) expect(served, title).toEqual([true, true]);
    stop.abort();
    for (const { busy } of parties) await busy;
  });

  test("holders and waiters there kept their places, and waiters are notified", async () => {
    for (const { title, locks, others, kept, waits, everywhere } of parties) {
      for (const [index, lease] of kept.entries()) {
        expect(lease.held, title).toBe(true);
        expect(await lease.release(), title).toBe(true);
        expect((await waits[index])?.token, title).toBeGreaterThan(lease.token);
      }
      for (const name of await everywhere("handed")) await areNotified(locks, others, name, title);
    }
  });

  test("when it is back, all goes on, and closing leaves no connection behind", async () => {
    node(REPLICATED).process.resume();
    await expect
      .poll(() => replication(REPLICATED), { timeout: PROMOTED_WITHIN_MS })
      .toContain("master_link_status:up");
    for (const { title, locks, others, everywhere } of parties) {
      for (const name of await everywhere("back")) await areNotified(locks, others, name, title);
    }
    await closeAll(opened);
    await expect.poll(sockets, { timeout: 5_000 }).toBe(0);
  });
});

describe("one master of a cluster falls silent, and no replica takes its place", () => {
  const TIMEOUT_MS = 1_000;
  /** So many that the subscription of one of them is sure to be at the silent node. */
  const PAIRS = 10;
  /** After the first request without an answer: while a new client is made, and while the old one ends. */
  const CLOSED_AFTER_MS = [0, 2, 5, 10, 20, 50, 200, TIMEOUT_MS, 1.5 * TIMEOUT_MS];
  const options = { prefix: "alone", timeout: TIMEOUT_MS } as const;
  const rootNodes = () => cluster.nodes.map(({ port }) => ({ url: `redis://127.0.0.1:${port}` }));
  const ends: string[] = [];
  let silent: string;
  let served: string;
  let pairs: { library: Library; name: string; users: [Locks, Locks] }[];
  let leaving: { backend: Backend; afterMs: number }[];
  let ioredis: Cluster;
  let nodeRedis: ReturnType<typeof createCluster>;
  let brought: Locks[];

  beforeAll(async () => {
    silent = await nameOn(cluster, ALONE, options.prefix, "silent");
    served = await nameOn(cluster, HEALTHY, options.prefix, "served");
    pairs = await Promise.all(
      LIBRARIES.flatMap((library) =>
        Array.from({ length: PAIRS }, async (_, index) => {
          const name = await nameOn(cluster, HEALTHY, options.prefix, `pair-${library}-${index}`);
          const user = () => stay({ ...options, url: cluster.url, library });
          return { library, name, users: [user(), user()] as [Locks, Locks] };
        }),
      ),
    );
    leaving = LIBRARIES.flatMap((library) =>
      CLOSED_AFTER_MS.map((afterMs) => ({
        afterMs,
        backend: redis({ ...options, url: cluster.url, library }),
      })),
    );
    for (const { backend } of leaving) {
      backend.watch({ name: served, id: "anybody" }, () => undefined);
      await ask(backend, silent);
      await ask(backend, served);
    }
    ioredis = new Cluster(rootNodes().map(({ url }) => url));
    ioredis.on("-node", () => ends.push("ioredis"));
    nodeRedis = createCluster({ rootNodes: rootNodes() });
    nodeRedis.on("node-disconnect", () => ends.push("node-redis"));
    await nodeRedis.connect();
    brought = [ioredis, nodeRedis].map((client) => stay({ ...options, client }));
    for (const locks of brought)
      expect([await runs(locks, silent), await runs(locks, served)]).toEqual([true, true]);
  });

  test("a client that never used its locks, but subscribed there, is notified again", async () => {
    await Promise.all(pairs.map(({ users, name }) => handOverMs(...users, name)));
    node(ALONE).process.pause();
    await Promise.all(pairs.map(({ users, name, library }) => areNotified(...users, name, library)));
    await closeAll(pairs.flatMap(({ users }) => users));
  });

  test.each(LIBRARIES)(
    "a new client by %s gets the locks of the others, and is notified",
    async (library) => {
      const newcomer = () => open({ ...options, url: cluster.url, library }, { ttl: TTL });
      const comes = async (index: number) => {
        const [here, there] = [newcomer(), newcomer()];
        const name = await nameOn(cluster, HEALTHY, options.prefix, `new-${library}-${index}`);
        expect(await runs(here, name)).toBe(true);
        await areNotified(here, there, name, library);
      };
      // Many, because each of them picks by chance whom it asks and where it listens.
      await Promise.all(Array.from({ length: 8 }, (_, index) => comes(index)));
    },
  );

  test("a client that the caller brought stays as it is", async () => {
    for (const locks of brought) {
      await expect(runs(locks, silent)).rejects.toMatchObject({ code: "backend", retryable: true });
    }
    await sleep(2 * TIMEOUT_MS);
    for (const locks of brought) expect(await runs(locks, served)).toBe(true);
    expect(ends).toEqual([]);
    await closeAll(brought);
    ioredis.disconnect();
    nodeRedis.destroy();
  });

  test("a backend that is closed in the middle of it leaves no connection behind", async () => {
    await Promise.all(
      leaving.map(async ({ backend, afterMs }) => {
        await expect(ask(backend, silent)).rejects.toMatchObject({ code: "backend", retryable: true });
        await sleep(afterMs);
        await backend.close();
      }),
    );
    await expect.poll(sockets, { timeout: 5_000 }).toBe(0);
  });
});
