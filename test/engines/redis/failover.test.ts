import { setTimeout as sleep } from "node:timers/promises";
import type { Lease, LeaseLostError, LockEvent } from "locktender";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stopAll } from "../../servers/server-process.js";
import { askRedis, type RedisSentinel, startRedisSentinel } from "./server.js";
import { idle, LIBRARIES, open, proxyTo, queued, replicated } from "./tools.js";

/** More than a failover takes here (2 to 3 s), so that a holder that is renewed afterwards keeps its lock. */
const TTL = "12s";
const SERVED_WITHIN_MS = 20_000;

let trio: RedisSentinel;
let lossy: RedisSentinel;
beforeAll(async () => {
  [trio, lossy] = await Promise.all([startRedisSentinel(), startRedisSentinel()]);
});
afterAll(() => stopAll([trio, lossy]));

async function lossOf(lease: Lease): Promise<LeaseLostError["loss"]> {
  await expect.poll(() => lease.signal.aborted, { timeout: SERVED_WITHIN_MS }).toBe(true);
  return (lease.signal.reason as LeaseLostError).loss;
}

describe("a master dies", () => {
  test("holders and waiters of both libraries ride through, locks work again, and tokens only grow", async () => {
    const parties = LIBRARIES.map((library) => {
      const events: LockEvent[] = [];
      const options = { url: trio.url, library, prefix: `through-${library}` };
      const locks = open(options, { ttl: TTL, onEvent: (event) => events.push(event) });
      return { library, locks, events, others: open(options, { ttl: TTL }) };
    });
    const before = await Promise.all(
      parties.map(async ({ locks, others }) => {
        const holder = await locks.mutex("kept").acquire();
        const waiting = others.mutex("kept").acquire({ wait: "40s" });
        waiting.catch(() => undefined);
        await queued(locks, "kept", 1);
        return { holder, waiting };
      }),
    );
    // So that the replicas have seen it: here nothing is to be lost.
    await replicated(trio.master.port, 2);
    await trio.master.process.kill();
    for (const [index, { library, locks, others, events }] of parties.entries()) {
      const { holder, waiting } = before[index] ?? {};
      // A caller that asks during the failover waits for its end.
      const fresh = await others.mutex("fresh").acquire({ wait: "40s" });
      expect(fresh.held, library).toBe(true);
      expect(holder?.held, `${library}: ${JSON.stringify(events.map(({ type }) => type))}`).toBe(true);
      await expect.poll(() => holder?.release().catch(() => false), { timeout: 5_000 }).toBe(true);
      const next = await waiting;
      expect(next?.token).toBeGreaterThan(holder?.token ?? 0n);
      await next?.release();
      for (let round = 0; round < 3; round++) {
        const token = await locks.mutex("kept").run((lease) => lease.token);
        expect(token).toBeGreaterThan(next?.token ?? 0n);
      }
    }
  });

  test("scenario S10: a claim that no replica had is lost: its holder is told, and the token of the next is greater", async () => {
    const [library, other] = LIBRARIES;
    const holders = open({ url: lossy.url, library, prefix: "s10" }, { ttl: TTL });
    const others = open({ url: lossy.url, library: other, prefix: "s10" }, { ttl: TTL });
    const survivor = await others.mutex("replicated").acquire();
    await holders.mutex("known").run(() => undefined);
    await replicated(lossy.master.port, 2);
    // Stopped, and their connections closed: what is written now reaches no replica, not even a socket's buffer.
    for (const replica of lossy.replicas) replica.process.pause();
    await askRedis(lossy.master.port, "CLIENT", "KILL", "TYPE", "replica");
    const lost = await holders.mutex("known").acquire({ note: "nobody saw it" });
    await lossy.master.process.kill();
    for (const replica of lossy.replicas) replica.process.resume();

    const believers = await others.mutex("known").acquire({ wait: "40s" });
    expect(believers.token).toBeGreaterThan(lost.token);
    expect(await lossOf(lost)).toBe("taken");
    expect(await lost.release()).toBe(false);
    expect(believers.held).toBe(true);
    expect((await others.inspect("known")).holders.map(({ token }) => token)).toEqual([believers.token]);
    expect(survivor.held, "what was replicated is still held").toBe(true);
  });
});

describe("replicas: 1", () => {
  test.each(LIBRARIES)("a sticky claim stays until another process wants it, by %s", async (library) => {
    const { port } = await newMaster(trio);
    await replicated(port, 1);
    const options = { url: trio.url, library, prefix: `sticky-${library}`, replicas: 1 } as const;
    const [locks, others] = [open(options, { ttl: "60s" }), open(options, { ttl: "60s" })];
    await others.inspect("x");
    await expect
      .poll(
        async () => {
          await locks.mutex("x", { sticky: "60s" }).run(() => undefined);
          return (await locks.inspect("x")).holders[0]?.sticky;
        },
        { timeout: 10_000 },
      )
      .toBe("idle");
    const startMs = performance.now();
    await others.mutex("x").run(() => undefined);
    // Without the notification, a renewal would tell after 20 s.
    expect(performance.now() - startMs).toBeLessThan(10_000);
  });

  test.each(LIBRARIES)("only the connection that wrote can ask for replicas, by %s", async (library) => {
    const { port } = await newMaster(trio);
    await replicated(port, 1);
    const { proxy, url } = await proxyTo(`redis://127.0.0.1:${port}`);
    const locks = open({ url, library, prefix: `asks-${library}`, replicas: 1 });
    await locks.mutex("a").run(() => undefined);
    const isWait = (data: Buffer) => /\bwait\b/i.test(data.toString("latin1"));
    let cut = proxy.cutBeforeReply(isWait);
    // On a new connection, WAIT would be answered at once, and tell nothing of this claim.
    await expect(locks.mutex("a").tryAcquire()).rejects.toMatchObject({ code: "backend", retryable: true });
    await cut;
    await locks.cell("c").write(0);
    cut = proxy.cutBeforeReply(isWait);
    await expect(locks.cell("c").write(1)).rejects.toMatchObject({ code: "backend", retryable: true });
    await cut;
  });

  test.each(LIBRARIES)(
    "a grant waits for a replica, and is undone when none acknowledges, by %s",
    async (library) => {
      const { replicas } = await newMaster(trio);
      const options = {
        url: trio.url,
        library,
        prefix: `wait-${library}`,
        replicas: 1,
        timeout: "600ms",
      } as const;
      const locks = open(options, { ttl: TTL });
      const plain = open({ ...options, replicas: 0 });
      expect(locks.guarantees.caveats.join(" ")).toMatch(/replica/);
      await expect
        .poll(() => granted(() => locks.mutex("acknowledged").tryAcquire()), { timeout: 10_000 })
        .toBe(true);

      for (const replica of replicas) replica.process.pause();
      try {
        const refused = locks.mutex("unseen").tryAcquire();
        await expect(refused).rejects.toMatchObject({ code: "backend", retryable: true });
        await idle(plain, "unseen");
        const waited = locks.mutex("unseen").acquire({ wait: 100 });
        await expect(waited).rejects.toMatchObject({ code: "backend", retryable: true });
        await idle(plain, "unseen");
        // A caller that does not ask for replicas is not kept waiting by them.
        expect(await plain.mutex("without").tryAcquire()).not.toBeNull();
      } finally {
        for (const replica of replicas) replica.process.resume();
      }
      await expect
        .poll(() => granted(() => locks.mutex("unseen").tryAcquire()), { timeout: 10_000 })
        .toBe(true);
    },
  );

  test.each(LIBRARIES)(
    "an update that no replica acknowledges is an error that may pass, and costs no holder the lease, by %s",
    async (library) => {
      const { replicas } = await newMaster(trio);
      const options = { url: trio.url, library, prefix: `update-${library}`, replicas: 1 };
      const locks = open({ ...options, timeout: "600ms" }, { ttl: "2s" });
      const lease = await locks.mutex("x").acquire();
      for (const replica of replicas) replica.process.pause();
      try {
        const updated = lease.update({ note: "unseen" });
        await expect(updated).rejects.toMatchObject({ code: "backend", retryable: true });
        expect(lease.held).toBe(true);
        await sleep(2_500);
        expect(lease.held, "it is still renewed").toBe(true);
      } finally {
        for (const replica of replicas) replica.process.resume();
      }
      const seen = () =>
        lease.update({ note: "seen" }).then(
          () => true,
          () => false,
        );
      await expect.poll(seen, { timeout: 10_000 }).toBe(true);
      const [holder] = (await locks.inspect("x")).holders;
      expect(holder).toMatchObject({ token: lease.token, note: "seen" });
      expect(await lease.release()).toBe(true);
    },
  );

  test("while no replica answers, a holder keeps its lock, however many others ask", async () => {
    const { replicas } = await newMaster(trio);
    const parties = await Promise.all(
      LIBRARIES.map(async (library) => {
        const prefix = `crowd-${library}`;
        const locks = open({ url: trio.url, library, prefix, replicas: 1, timeout: "600ms" }, { ttl: "2s" });
        // The time until a master is found, on a busy machine more than a second, is time of the first lease.
        await locks.mutex("first").run(() => undefined);
        return { locks, lease: await locks.mutex("held").acquire() };
      }),
    );
    for (const replica of replicas) replica.process.pause();
    try {
      const tries = parties.flatMap(({ locks }) =>
        Array.from({ length: 12 }, (_, index) => locks.mutex(`asked-${index}`).tryAcquire()),
      );
      const outcomes = await Promise.allSettled(tries);
      expect(outcomes.map(({ status }) => status)).toEqual(tries.map(() => "rejected"));
      await sleep(1_200);
      for (const { lease } of parties) expect(lease.held, String(lease.signal.reason)).toBe(true);
    } finally {
      for (const replica of replicas) replica.process.resume();
    }
    for (const { lease } of parties) expect(await lease.release()).toBe(true);
  });

  test("a waiter that is let in by a notification waits for the replicas, too", async () => {
    const { replicas } = await newMaster(trio);
    const options = { url: trio.url, prefix: "notified", timeout: "600ms" } as const;
    const holder = await open(options).mutex("x").acquire();
    const careful = open({ ...options, replicas: 1 }, { ttl: TTL });
    let got = false;
    const waiting = careful.mutex("x").acquire({ wait: "20s" });
    waiting.then(
      () => {
        got = true;
      },
      () => undefined,
    );
    await queued(careful, "x", 1);
    for (const replica of replicas) replica.process.pause();
    await holder.release();
    await sleep(300);
    expect(got).toBe(false);
    for (const replica of replicas) replica.process.resume();
    expect((await waiting).held).toBe(true);
  });
});

/** Replicas get what is written in its order: a replica that has the last has all. */
async function granted(tried: () => Promise<Lease | null>): Promise<boolean> {
  const lease = await tried().catch(() => null);
  return (await lease?.release()) ?? false;
}

/** The master after the failover of the first test, and which of the others still replicate from it. */
async function newMaster(
  redis: RedisSentinel,
): Promise<{ port: number; replicas: RedisSentinel["replicas"] }> {
  const [sentinel] = redis.sentinels;
  const told = await askRedis(sentinel?.port ?? 0, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", redis.masterName);
  const port = Number((told as [string, string])[1]);
  const replicas = redis.replicas.filter((replica) => replica.port !== port);
  const online = async () =>
    String(await askRedis(port, "INFO", "replication")).match(/state=online/g)?.length;
  await expect.poll(online, { timeout: 20_000 }).toBe(replicas.length);
  return { port, replicas };
}
