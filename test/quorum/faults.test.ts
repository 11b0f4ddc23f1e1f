import { once } from "node:events";
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Lease, Locks } from "locktender";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { askRedis, type RedisNode, startRedisServers } from "../servers/redis.js";
import { Quorum, sleep, urlOf } from "./tools.js";

// Everything that a majority survives, on five real servers; and what it does not survive, told in time.

const servers = await startRedisServers(5, { config: ["appendonly yes", "appendfsync always"] });
const { nodes, ports } = servers;
afterAll(() => servers.stop());

const stopped = new Set<RedisNode>();
/** After each test all servers run. Those that were ended come back without what they knew. */
afterEach(async () => {
  for (const node of nodes) {
    if (stopped.delete(node)) node.process.resume();
    await askRedis(node.port, "PING").catch(() => restartEmpty(node));
  }
});

function at(place: number): RedisNode {
  const node = nodes[place];
  if (node === undefined) throw new RangeError(`there is no server ${place}`);
  return node;
}

const files = (node: RedisNode) => join(node.process.folder, "appendonlydir");

async function restartEmpty(node: RedisNode): Promise<void> {
  await node.process.kill();
  await rm(files(node), { recursive: true, force: true });
  await node.process.restart();
}

function pause(...places: number[]): void {
  for (const place of places) {
    stopped.add(at(place));
    at(place).process.pause();
  }
}

function resume(): void {
  for (const node of stopped) node.process.resume();
  stopped.clear();
}

async function lossOf({ signal }: Lease): Promise<string> {
  if (!signal.aborted) await once(signal, "abort", { signal: AbortSignal.timeout(10_000) });
  return signal.reason.loss;
}

describe("a minority of servers is lost", () => {
  test("killed: leases are renewed, taken and given back as before, also by clients that come now", async () => {
    const quorum = await Quorum.on(ports);
    const locks = quorum.open({ ttl: "1s" });
    const lease = await locks.mutex("a").acquire();
    await Promise.all([at(0), at(3)].map((node) => node.process.kill()));
    const others = quorum.open();
    const waiting = others.mutex("a").acquire();
    await sleep(1_500);
    expect(lease.held).toBe(true);
    expect(await others.mutex("a").tryAcquire()).toBeNull();
    expect(await lease.release()).toBe(true);
    const next = await waiting;
    expect(next.token).toBeGreaterThan(lease.token);
    expect((await others.inspect("a")).holders.map(({ token }) => token)).toEqual([next.token]);
    expect(await next.release()).toBe(true);
  });

  test("stopped: nobody waits for them, and what reaches them late is not left there", async () => {
    const quorum = await Quorum.on(ports);
    const locks = quorum.open({ ttl: "2s" });
    await locks.mutex("a").run(() => undefined);
    pause(1, 4);
    const startedAt = performance.now();
    let last = 0n;
    for (let round = 0; round < 50; round++) {
      const token = await locks.mutex("a").run((lease) => lease.token);
      expect(token).toBeGreaterThan(last);
      last = token;
    }
    // Waiting for them would take a third of the ttl, each time.
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    resume();
    await quorum.nothingLeft("a", 4_000);
    expect(await locks.mutex("a").run((lease) => lease.token)).toBeGreaterThan(last);
  });

  test("flushed: the holder keeps its lock, and nobody else gets it", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "1s" });
    const lease = await quorum.open({ ttl: 900 }).mutex("a").acquire();
    for (const place of [0, 1]) await askRedis(at(place).port, "FLUSHALL");
    const others = quorum.open({ ttl: 900 });
    for (let round = 0; round < 10; round++) {
      expect(await others.mutex("a").tryAcquire()).toBeNull();
      await sleep(150);
    }
    expect(lease.held).toBe(true);
    // It has been renewed, and nobody gave it back to those who forgot it.
    await expect.poll(() => quorum.claims("a")).toEqual([0, 0, 1, 1, 1]);
    expect(await lease.release()).toBe(true);
    expect(await others.mutex("a").run(({ token }) => token)).toBeGreaterThan(lease.token);
  });

  test("out of reach for one client: it holds and takes locks like the others", async () => {
    const quorum = await Quorum.on(ports);
    const { locks, proxies } = await quorum.behind([2, 3], { ttl: "1s" });
    const lease = await locks.mutex("a").acquire();
    for (const proxy of proxies) proxy.blackhole("both");
    await sleep(1_500);
    expect(lease.held).toBe(true);
    expect(await quorum.open().mutex("a").tryAcquire()).toBeNull();
    expect(await lease.release()).toBe(true);
    expect(await locks.mutex("b").run(({ held }) => held)).toBe(true);
  });

  test("scenario S13: the replies of three are lost after they voted; the lock is held once, and given back", async () => {
    const quorum = await Quorum.on(ports);
    const { locks, proxies } = await quorum.behind([0, 1, 2], { ttl: "5s" });
    await locks.mutex("b").run(() => undefined);
    const cuts = proxies.map((proxy) => proxy.cutBeforeReply((data) => data.includes("{a}")));
    const lease = await locks.mutex("a").acquire();
    await Promise.all(cuts);
    const watcher = quorum.open();
    expect((await watcher.inspect("a")).holders.map(({ token }) => token)).toEqual([lease.token]);
    expect(await watcher.mutex("a").tryAcquire()).toBeNull();
    expect(await lease.release()).toBe(true);
    await quorum.nothingLeft("a", 2_000);
  });
});

describe("a majority of servers is lost", () => {
  test("killed: it is an outage that says which, holders are told, and it ends when they are back", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "1s" });
    const locks = quorum.open({ ttl: "1s" });
    const lease = await locks.mutex("a").acquire();
    await Promise.all([at(0), at(1), at(2)].map((node) => node.process.kill()));
    const startedAt = performance.now();
    const error = await locks
      .mutex("b")
      .tryAcquire()
      .catch((reason: unknown) => reason);
    expect(performance.now() - startedAt).toBeLessThan(3_000);
    expect(error).toMatchObject({ code: "backend", retryable: true });
    for (const place of [0, 1, 2]) expect(String(error)).toContain(`127.0.0.1:${ports[place]}`);
    for (const place of [3, 4]) expect(String(error)).not.toContain(`127.0.0.1:${ports[place]}`);
    await expect(locks.mutex("a").acquire({ wait: 300 })).rejects.toMatchObject({ code: "backend" });
    expect(await lossOf(lease)).toBe("expired");
    await Promise.all([0, 1, 2].map((place) => restartEmpty(at(place))));
    const young = await quorum
      .open({ ttl: "1s" })
      .mutex("b")
      .tryAcquire()
      .catch((reason: unknown) => reason);
    expect(young).toMatchObject({ code: "backend", retryable: true });
    expect(String(young)).toMatch(/has lost its memory or is new, and votes in \d/);
    const next = await quorum.held("a", { ttl: "1s" });
    expect(next.token).toBeGreaterThan(lease.token);
  });

  test("stopped: it is an outage within its time, and nothing is held by anybody afterwards", async () => {
    const quorum = await Quorum.on(ports);
    const locks = quorum.open({ ttl: "1s" });
    await locks.mutex("a").run(() => undefined);
    pause(0, 1, 2);
    const startedAt = performance.now();
    await expect(locks.mutex("a").tryAcquire()).rejects.toMatchObject({ code: "backend" });
    expect(performance.now() - startedAt).toBeLessThan(1_500);
    await expect(locks.mutex("a").acquire({ wait: "5s" })).rejects.toMatchObject({ code: "backend" });
    resume();
    await quorum.nothingLeft("a", 3_000);
    expect(await locks.mutex("a").run(({ held }) => held)).toBe(true);
  });

  test("stopped: all who wait in one process are told in their time, and not one after the other", async () => {
    const quorum = await Quorum.on(ports);
    const lease = await quorum.open({ ttl: "10s" }).mutex("a").acquire();
    const locks = quorum.open({ ttl: "500ms", wait: "60s" });
    const waits = Array.from({ length: 10 }, () => locks.mutex("a").acquire());
    const told = Promise.all(waits.map((wait) => expect(wait).rejects.toMatchObject({ code: "backend" })));
    await sleep(200);
    pause(2, 3, 4);
    const startedAt = performance.now();
    await told;
    expect(performance.now() - startedAt).toBeLessThan(4_000);
    resume();
    expect(await lease.release()).toBe(true);
    await quorum.nothingLeft("a", 3_000);
  });

  test("flushed: the holder is told by its next renewal, and nobody is let in before its time is over", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "2s", fresh: false });
    await quorum
      .open({}, { fresh: true })
      .mutex("a")
      .run({ ttl: "1s" }, () => undefined);
    const lease = await quorum.open({ ttl: "1500ms" }).mutex("a").acquire();
    const flushedAt = performance.now();
    for (const place of [0, 1, 2]) await askRedis(at(place).port, "FLUSHALL");
    const waiting = quorum.held("a", { ttl: "2s" });
    expect(await lossOf(lease)).toBe("taken");
    expect(performance.now() - flushedAt).toBeLessThan(1_500);
    const next = await waiting;
    expect(performance.now() - flushedAt).toBeGreaterThan(1_950);
    expect(next.token).toBeGreaterThan(lease.token);
  });

  test("out of reach for the holder: it is told before anybody else is let in", async () => {
    const quorum = await Quorum.on(ports);
    const { locks, proxies } = await quorum.behind([0, 1, 2], { ttl: "1s" });
    const lease = await locks.mutex("a").acquire();
    let toldAt = Number.NaN;
    lease.signal.addEventListener("abort", () => {
      toldAt = performance.now();
    });
    for (const proxy of proxies) proxy.blackhole("both");
    const next = await quorum.open().mutex("a").acquire();
    expect(toldAt).toBeLessThanOrEqual(performance.now());
    expect(next.token).toBeGreaterThan(lease.token);
    await expect(locks.mutex("b").tryAcquire()).rejects.toMatchObject({ code: "backend" });
    // What it got from the minority, it has given back: two of five need not be waited for.
    expect(await quorum.open().mutex("b").tryAcquire()).not.toBeNull();
  });
});

describe("scenario S11: a server comes back without what it knew, and a client asks that never saw it before", () => {
  /** A fixed lease on servers 0, 1 and 2 alone: with the vote of one of them, somebody else would have a majority. */
  async function onThree(quorum: Quorum, ttl = 1_500): Promise<Lease> {
    const { locks, proxies } = await quorum.behind([3, 4]);
    for (const proxy of proxies) proxy.refuse();
    const lease = await locks.mutex("a").acquire({ ttl, renew: false });
    expect(await quorum.claims("a")).toEqual([1, 1, 1, 0, 0]);
    return lease;
  }

  async function nobodyElseWhileHeld(quorum: Quorum, lease: Lease): Promise<void> {
    let asked = 0;
    for (; lease.held; asked++) {
      const other = quorum.open({ ttl: "1s" });
      const got = await other.mutex("a").tryAcquire();
      expect(got === null || !lease.held, "nobody else was let in").toBe(true);
      await other.close();
      await sleep(20);
    }
    expect(asked).toBeGreaterThan(5);
  }

  test("empty: it does not vote while anything that it forgot may be held, and votes again then", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "2s" });
    const lease = await onThree(quorum);
    await restartEmpty(at(2));
    await nobodyElseWhileHeld(quorum, lease);
    expect((await quorum.held("a", { ttl: "1s" })).token).toBeGreaterThan(lease.token);
    await sleep(2_100);
    // It votes again: without it, these would be two of five.
    await Promise.all([at(0), at(1)].map((node) => node.process.kill()));
    expect(await quorum.open({ ttl: "1s" }).mutex("b").tryAcquire()).not.toBeNull();
  });

  /** A lease as above, which server 2 knew; and it is started anew with what it knew before. */
  async function forgottenByOne(quorum: Quorum): Promise<Lease> {
    const older = `${files(at(2))}.older`;
    await cp(files(at(2)), older, { recursive: true });
    const lease = await onThree(quorum, 10_000);
    await at(2).process.kill();
    await rm(files(at(2)), { recursive: true });
    await cp(older, files(at(2)), { recursive: true });
    await rm(older, { recursive: true });
    await at(2).process.restart();
    expect(await askRedis(at(2).port, "EXISTS", `${quorum.prefix}:quorum:born`)).toBe(1);
    expect(await quorum.claims("a")).toEqual([1, 1, 0, 0, 0]);
    return lease;
  }

  test("with older data: it knows since when it remembers, and that it was started anew since", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "20s" });
    const lease = await forgottenByOne(quorum);
    for (let round = 0; round < 10; round++) {
      expect(await quorum.open().mutex("a").tryAcquire({ ttl: "1s" })).toBeNull();
    }
    expect(lease.held).toBe(true);
  });

  /** Somebody who knew the server, and has asked nothing while it was started anew: its client connects by itself. */
  async function idle(quorum: Quorum): Promise<Locks> {
    const locks = quorum.open({ ttl: "1s" });
    await locks.mutex("b").run(() => undefined);
    return locks;
  }

  async function isRefused(locks: Locks, lease: Lease): Promise<void> {
    await sleep(500);
    expect(await locks.mutex("a").tryAcquire()).toBeNull();
    expect(lease.held).toBe(true);
  }

  test("with older data, and the first to ask refreshes what it has", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "20s" });
    const waiting = await idle(quorum);
    const kept = await quorum.open({ ttl: "20s" }).mutex("c").acquire();
    const lease = await forgottenByOne(quorum);
    await sleep(500);
    await kept.update({ note: "still here" });
    await isRefused(waiting, lease);
  });

  test("with older data, and the first to ask uses another prefix", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "20s" });
    const waiting = await idle(quorum);
    const lease = await forgottenByOne(quorum);
    const neighbours = await Quorum.on(ports);
    await neighbours
      .open()
      .mutex("a")
      .run(() => undefined);
    await isRefused(waiting, lease);
  });

  test("with older data, and the first to ask uses another database", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "20s" });
    const waiting = await idle(quorum);
    const lease = await forgottenByOne(quorum);
    const elsewhere = quorum.open({}, { url: `${urlOf(ports)}/1` });
    await elsewhere.mutex("a").run(() => undefined);
    await isRefused(waiting, lease);
  });

  test("with older data, and its memory is full when somebody asks", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "20s" });
    const waiting = await idle(quorum);
    const lease = await forgottenByOne(quorum);
    await askRedis(at(2).port, "CONFIG", "SET", "maxmemory", "1");
    expect(await quorum.open().mutex("a").tryAcquire({ ttl: "1s" })).toBeNull();
    await askRedis(at(2).port, "CONFIG", "SET", "maxmemory", "0");
    await isRefused(waiting, lease);
  });

  test("whoever is refused by a majority keeps no vote of the rest", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "20s" });
    const lease = await onThree(quorum);
    const others = quorum.open({ ttl: "20s" });
    expect(await others.mutex("a").tryAcquire()).toBeNull();
    await expect.poll(() => quorum.claims("a"), { timeout: 1_000 }).toEqual([1, 1, 1, 0, 0]);
    await expect(others.mutex("a").acquire({ wait: 200 })).rejects.toMatchObject({ code: "timeout" });
    await expect.poll(() => quorum.claims("a"), { timeout: 1_000 }).toEqual([1, 1, 1, 0, 0]);
    expect(lease.held).toBe(true);
  });

  test("with all of its data: its scripts are gone, and the claims that it has are kept", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "2s" });
    const lease = await onThree(quorum);
    await at(2).process.restart();
    expect(await quorum.claims("a")).toEqual([1, 1, 1, 0, 0]);
    await nobodyElseWhileHeld(quorum, lease);
  });
});
