import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type LockEvent, type Locks, type LocksOptions } from "locktender";
import { type RedisOptions, redis } from "locktender/redis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { shared } from "../../servers/shared.js";
import { askRedis, type RedisCluster, startRedisCluster } from "./server.js";
import { LIBRARIES, type Library, nameOn, open, queued } from "./tools.js";

const VICTIM = 1;
const TTL_MS = 2_500;

let cluster: RedisCluster;
beforeAll(async () => {
  cluster = await startRedisCluster();
  // As large clusters are run: a cluster that has lost one master still serves the slots of the others.
  for (const { port } of cluster.nodes) {
    await askRedis(port, "CONFIG", "SET", "cluster-require-full-coverage", "no");
  }
});
/** They live through several tests. */
const opened: Locks[] = [];
afterAll(async () => {
  await Promise.all(opened.map((locks) => locks.close({ drain: 0, abort: 0 })));
  await cluster.stop();
});

function stay(options: RedisOptions, locksOptions: LocksOptions = {}): Locks {
  const locks = createLocks(redis(options), locksOptions);
  opened.push(locks);
  return locks;
}

/** One library's locks on every node, with a waiter. */
async function settle(library: Library) {
  const prefix = `outage-${library}`;
  const events: LockEvent[] = [];
  const options = { url: cluster.url, library, prefix, timeout: "1s" } as const;
  const locks = stay(options, { ttl: TTL_MS, onEvent: (event) => events.push(event) });
  const others = stay(options, { ttl: TTL_MS });
  const kept = await locks.mutex(await nameOn(cluster, 0, prefix, "kept")).acquire();
  const handed = await locks.mutex(await nameOn(cluster, 2, prefix, "handed")).acquire();
  const lost = await locks.mutex(await nameOn(cluster, VICTIM, prefix, "lost")).acquire();
  const waiting = others.mutex(handed.name).acquire({ wait: "30s" });
  waiting.catch(() => undefined);
  await queued(locks, handed.name, 1);
  return { library, prefix, options, events, others, kept, handed, lost, waiting };
}

describe("one master of a cluster dies", () => {
  let parties: Awaited<ReturnType<typeof settle>>[];

  test("its locks are an error that may pass, and never taken for contention", async () => {
    parties = await Promise.all(LIBRARIES.map(settle));
    await cluster.nodes[VICTIM]?.process.kill();
    for (const { library, others, lost } of parties) {
      const refused = others.mutex(lost.name).tryAcquire();
      await expect(refused, library).rejects.toMatchObject({ code: "backend", retryable: true });
      const gaveUp = others.mutex(lost.name).acquire({ wait: 700 });
      await expect(gaveUp, library).rejects.toMatchObject({ code: "backend", retryable: true });
    }
  });

  test("a holder of one of them is told; holders and waiters elsewhere notice nothing", async () => {
    for (const { library, lost } of parties) {
      await expect.poll(() => lost.signal.aborted, { timeout: 10_000 }).toBe(true);
      expect(lost.signal.reason, library).toMatchObject({ loss: "expired" });
    }
    // Longer than their ttl: they live because they are renewed.
    await sleep(TTL_MS + 200);
    for (const { library, kept, handed, lost, waiting, events } of parties) {
      const losses = events.flatMap((event) => (event.type === "lost" ? [event.name] : []));
      expect(losses, library).toEqual([lost.name]);
      expect([kept.held, handed.held], library).toEqual([true, true]);
      expect(await handed.release()).toBe(true);
      expect((await waiting).token).toBeGreaterThan(handed.token);
    }
  });

  test("a new client while it is down gets the locks of the others", async () => {
    for (const { library, prefix, options } of parties) {
      const newcomer = open(options);
      for (const node of [0, 2]) {
        const lease = await newcomer
          .mutex(await nameOn(cluster, node, prefix, "new"))
          .acquire({ wait: "10s" });
        expect(lease.held, library).toBe(true);
      }
    }
  });

  test("when it is back, it serves again", async () => {
    await cluster.nodes[VICTIM]?.process.restart();
    for (const { others, lost } of parties) {
      const back = async () => (await others.mutex(lost.name).acquire({ wait: "1s" })).token;
      await expect.poll(() => back().catch(() => 0n), { timeout: 15_000 }).toBeGreaterThan(lost.token);
    }
  });
});

describe("of several hosts in a URL one may be down", () => {
  const cases = LIBRARIES.flatMap((library) =>
    (["redis-cluster", "redis-sentinel"] as const).map((kind) => ({ library, kind })),
  );
  test.each(cases)("$kind by $library", async ({ library, kind }) => {
    const url = (await shared(kind)).url.replace("://", "://127.0.0.1:1,");
    for (let round = 0; round < 3; round++) {
      const locks = open({ url, library, prefix: `hosts-${process.pid}-${library}` });
      expect(await locks.mutex(`round ${round}`).tryRun(() => "in")).toEqual({ ran: true, value: "in" });
    }
  });
});
