import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type RedisOptions, redis } from "locktender/redis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Answer, Backend, ClaimRequest, Notification } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";
import { type RedisSingle, startRedisSingle } from "./server.js";
import { CommandLog, LIBRARIES, look, open } from "./tools.js";

let server: RedisSingle;
beforeAll(async () => {
  server = await startRedisSingle();
});
afterAll(() => server.stop());

const OWNER = { instance: "i", host: "h", pid: 1 };

/** One claim of a process, and what that process was told about it. */
class Watched {
  readonly id = randomUUID();
  readonly told: (Notification | undefined)[] = [];

  constructor(readonly backend: Backend) {
    onTestFinished(backend.watch({ name: "x", id: this.id }, (notification) => this.told.push(notification)));
  }

  claim(more: Partial<ClaimRequest> = {}): Promise<Answer> {
    const shape = { weight: WHOLE, capacity: WHOLE, fixed: false, minHoldMs: 0, queue: true };
    const { id } = this;
    return this.backend.claim({ name: "x", id, ttlMs: 60_000, ...shape, owner: OWNER, note: "", ...more });
  }

  sticky(more: Partial<ClaimRequest> = {}): Promise<Answer> {
    return this.claim({ sticky: true, owner: { ...OWNER, sticky: true }, ...more });
  }

  async renew(ticket: bigint): Promise<unknown> {
    const [answer] = await this.backend.renew([{ name: "x", id: this.id, ticket, ttlMs: 60_000 }]);
    return answer;
  }

  release(): Promise<boolean> {
    return this.backend.release({ name: "x", id: this.id });
  }

  /** Everything that was published before this has arrived. */
  async wanted(): Promise<number> {
    const before = this.told.length;
    const probe = look(server.node.port);
    for (const channel of (await probe.pubsub("CHANNELS", "*")) as string[])
      await probe.publish(channel, `1 ${this.id} ask`);
    await expect.poll(() => this.told.length).toBeGreaterThan(before);
    return this.told.filter((notification) => notification?.state === "wanted").length;
  }
}

let last = 0;

/** Two processes that listen, at a name that has no claims. */
async function two(options: RedisOptions): Promise<{ holder: Watched; other: () => Watched }> {
  const prefix = `sticky-${++last}`;
  const backends = [1, 2].map(() => redis({ url: server.url, ...options, prefix }));
  for (const backend of backends) onTestFinished(() => backend.close());
  const [mine, theirs] = backends as [Backend, Backend];
  const holder = new Watched(mine);
  // Told to ask: from now on the subscription stands.
  await expect.poll(() => holder.told.length, { timeout: 5_000 }).toBe(1);
  return { holder, other: () => new Watched(theirs) };
}

function ticketOf(answer: Answer): bigint {
  if (!("ticket" in answer)) throw new Error(`it is ${answer.state}`);
  return answer.ticket;
}

describe.each(LIBRARIES)("sticky claims, by %s", (library) => {
  test("its holder is told of a first claim behind it, in either form of the head, and of no second one", async () => {
    for (const touched of [false, true]) {
      const { holder, other } = await two({ library });
      const granted = await holder.sticky();
      expect(granted).toMatchObject({ state: "granted", tells: true });
      if (touched) expect(await holder.renew(ticketOf(granted))).not.toHaveProperty("wanted");
      expect(await other().claim()).toMatchObject({ state: "waiting" });
      expect(await holder.wanted()).toBe(1);
      expect(holder.told).toContainEqual({ state: "wanted", ticket: ticketOf(granted) });
      expect(await other().claim()).toMatchObject({ state: "waiting" });
      expect(await holder.wanted()).toBe(1);
      expect(await holder.renew(ticketOf(granted))).toMatchObject({ state: "held", wanted: true });
    }
  });

  test("its holder is told of each claim that is refused because of it, and keeps no trace of it", async () => {
    const { holder, other } = await two({ library });
    const ticket = ticketOf(await holder.sticky());
    expect(await other().claim({ queue: false })).toMatchObject({ state: "refused" });
    expect(await holder.wanted()).toBe(1);
    expect(await other().claim({ maxWaiters: 0 })).toMatchObject({ state: "queue-full" });
    expect(await holder.wanted()).toBe(2);
    expect(await other().claim({ capacity: 5, weight: 1 })).toMatchObject({ state: "capacity-mismatch" });
    expect(await holder.wanted()).toBe(2);
    expect(await holder.renew(ticket)).toEqual({ state: "held", remainingMs: expect.any(Number) });
  });

  test("once there were several claims, a refused one is still told, and a renewal tells of a waiter", async () => {
    const { holder, other } = await two({ library });
    const ticket = ticketOf(await holder.sticky());
    const leaving = other();
    await leaving.claim();
    await leaving.release();
    expect(await holder.wanted()).toBe(1);
    expect(await other().claim({ queue: false })).toMatchObject({ state: "refused" });
    expect(await holder.wanted()).toBe(2);
    expect(await holder.renew(ticket)).not.toHaveProperty("wanted");
    await other().claim();
    expect(await holder.renew(ticket)).toMatchObject({ state: "held", wanted: true });
  });

  test("a claim that waited, or was asked for again, is not promised to be told", async () => {
    const { holder, other } = await two({ library });
    const before = other();
    await before.claim();
    expect(await holder.sticky()).not.toHaveProperty("tells");
    await before.release();
    const granted = await holder.sticky();
    expect(granted).toMatchObject({ state: "granted" });
    expect(granted).not.toHaveProperty("tells");
    const again = await holder.sticky({ ticket: ticketOf(granted) });
    expect(again).toMatchObject({ state: "granted" });
    expect(again).not.toHaveProperty("tells");
  });

  test("a claim that follows a dead one is told from its grant on", async () => {
    const { holder, other } = await two({ library });
    await other().claim({ ttlMs: 50 });
    await sleep(100);
    expect(await holder.sticky()).toMatchObject({ state: "granted", remainingMs: 60_000, tells: true });
    await other().claim();
    expect(await holder.wanted()).toBe(1);
  });

  test.each([
    ["its note", { note: '"sticky":true' }],
    ["its owner", { owner: { ...OWNER, service: '\\","sticky":true,"x":"' } }],
  ])("a claim is not sticky because %s reads like one", async (_, more) => {
    const { holder, other } = await two({ library });
    const granted = await holder.claim(more);
    expect(granted).not.toHaveProperty("tells");
    await other().claim({ queue: false });
    await other().claim();
    expect(await holder.wanted()).toBe(0);
    expect(await holder.renew(ticketOf(granted))).not.toHaveProperty("wanted");
  });

  test("where the server lets no process listen, no claim stays", async () => {
    const client = look(server.node.port);
    await client.call(
      "ACL",
      "SETUSER",
      `deaf-${library}`,
      "reset",
      "on",
      ">secret",
      "~*",
      "&*",
      "+@all",
      "-subscribe",
    );
    const url = server.url.replace("://", `://deaf-${library}:secret@`);
    const locks = open({ url, library, prefix: `deaf-${library}` }, { ttl: "60s" });
    for (let turn = 0; turn < 3; turn++) {
      await locks.mutex("x", { sticky: "60s" }).run(() => undefined);
      expect((await locks.inspect("x")).holders).toEqual([]);
      await sleep(100);
    }
  });

  test("of a waiter that may not publish, the holder hears by its renewal", async () => {
    const client = look(server.node.port);
    await client.call(
      "ACL",
      "SETUSER",
      `mute-${library}`,
      "reset",
      "on",
      ">secret",
      "~*",
      "&*",
      "+@all",
      "-publish",
    );
    const url = server.url.replace("://", `://mute-${library}:secret@`);
    const prefix = `mute-${library}`;
    const holders = open({ url: server.url, library, prefix }, { ttl: "3s" });
    const others = open({ url, library, prefix }, { ttl: "60s" });
    await expect
      .poll(async () => {
        await holders.mutex("x", { sticky: "3s" }).run(() => undefined);
        return (await holders.inspect("x")).holders[0]?.sticky;
      })
      .toBe("idle");
    expect(await others.mutex("x").tryAcquire()).toBeNull();
    const startMs = performance.now();
    const lease = await others.mutex("x").acquire();
    expect(performance.now() - startMs).toBeLessThan(2_500);
    await lease.release();
  });

  test("a sticky name that is used again and again asks the server nothing", async () => {
    const locks = open({ url: server.url, library, prefix: `quiet-${library}` }, { ttl: "60s" });
    const mutex = locks.mutex("x", { sticky: "30s" });
    await expect
      .poll(async () => {
        await mutex.run(() => undefined);
        return (await locks.inspect("x")).holders[0]?.sticky;
      })
      .toBe("idle");
    const log = await CommandLog.of(server.node.port);
    const seen = await log.during(async () => {
      for (let turn = 0; turn < 20; turn++) await mutex.run(() => undefined);
    });
    expect(seen.asked).toEqual([]);
  });
});
