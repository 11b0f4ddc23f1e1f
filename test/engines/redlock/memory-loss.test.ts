import { cp, rm } from "node:fs/promises";
import { Redis } from "ioredis";
import { createLocks, type Lease, type Locks } from "locktender";
import { redlock } from "locktender/redlock";
import { describe, expect, onTestFinished, test } from "vitest";
import { bornKey } from "#lib/backends/redlock/keys.js";
import { askRedis } from "../redis/server.js";
import { Quorum, sleep, urlOf } from "./tools.js";
import { Voters } from "./voters.js";

const voters = await Voters.start();
const { ports } = voters;

describe("scenario S11: a server comes back without what it knew, and a client asks that never saw it before", () => {
  /** A fixed lease on servers 0, 1 and 2 alone: with the vote of one of them, another client would have a majority. */
  async function onThree(quorum: Quorum, ttl = 1_500): Promise<Lease> {
    const { locks, proxies } = await quorum.behind([3, 4]);
    for (const proxy of proxies) proxy.refuse();
    const lease = await locks.mutex("a").acquire({ ttl, renew: false });
    expect(await quorum.claims("a")).toEqual([1, 1, 1, 0, 0]);
    return lease;
  }

  async function noOtherWhileHeld(quorum: Quorum, lease: Lease): Promise<void> {
    let asked = 0;
    for (; lease.held; asked++) {
      const other = quorum.open({ ttl: "1s" });
      const got = await other.mutex("a").tryAcquire();
      expect(got === null || !lease.held, "no other client was let in").toBe(true);
      await other.close();
      await sleep(20);
    }
    expect(asked).toBeGreaterThan(5);
  }

  test("empty: it does not vote while anything that it forgot may be held, and votes again then", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "2s" });
    const lease = await onThree(quorum);
    await voters.restartEmpty(2);
    await noOtherWhileHeld(quorum, lease);
    expect((await quorum.held("a", { ttl: "1s" })).token).toBeGreaterThan(lease.token);
    await sleep(2_100);
    // It votes again: without it, these would be two of five.
    await voters.kill(0, 1);
    expect(await quorum.open({ ttl: "1s" }).mutex("b").tryAcquire()).not.toBeNull();
  });

  /** A lease as above, which server 2 knew; and it is started anew with what it knew before. */
  async function forgottenByOne(quorum: Quorum): Promise<Lease> {
    const older = `${voters.filesOf(2)}.older`;
    await cp(voters.filesOf(2), older, { recursive: true });
    const lease = await onThree(quorum, 10_000);
    await voters.at(2).process.kill();
    await rm(voters.filesOf(2), { recursive: true });
    await cp(older, voters.filesOf(2), { recursive: true });
    await rm(older, { recursive: true });
    await voters.at(2).process.restart();
    expect(await askRedis(voters.at(2).port, "EXISTS", bornKey(quorum.prefix))).toBe(1);
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

  /** A client that knew the server, and has asked nothing while it was started anew: its client connects by itself. */
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

  test("with older data, and the first to ask uses a client that has selected another database", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "20s" });
    const bring = async (db: number) => {
      const clients = ports.map((port) => new Redis(port, "127.0.0.1"));
      onTestFinished(() => clients.forEach((client) => void client.disconnect()));
      await Promise.all(clients.map((client) => client.select(db)));
      return createLocks(redlock({ clients, prefix: quorum.prefix, maxTtl: "20s", fresh: true }), {
        ttl: "1s",
      });
    };
    const waiting = await bring(0);
    await waiting.mutex("b").run(() => undefined);
    const lease = await forgottenByOne(quorum);
    const elsewhere = await bring(1);
    await elsewhere.mutex("a").run(() => undefined);
    await isRefused(waiting, lease);
    await Promise.all([waiting.close(), elsewhere.close()]);
  });

  test("with older data, and its memory is full when a client asks", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "20s" });
    const waiting = await idle(quorum);
    const lease = await forgottenByOne(quorum);
    await askRedis(voters.at(2).port, "CONFIG", "SET", "maxmemory", "1");
    expect(await quorum.open().mutex("a").tryAcquire({ ttl: "1s" })).toBeNull();
    await askRedis(voters.at(2).port, "CONFIG", "SET", "maxmemory", "0");
    await isRefused(waiting, lease);
  });

  test("a client that a majority refuses keeps no vote of the rest", async () => {
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
    await voters.at(2).process.restart();
    expect(await quorum.claims("a")).toEqual([1, 1, 1, 0, 0]);
    await noOtherWhileHeld(quorum, lease);
  });
});
