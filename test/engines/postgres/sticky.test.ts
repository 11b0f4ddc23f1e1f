import { createLocks, type Duration, type Locks, type LocksOptions } from "locktender";
import type { PostgresOptions } from "locktender/postgres";
import type { PoolClient } from "pg";
import sqlOf from "postgres";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Notification } from "#lib/core/backend.js";
import { askPostgres, startPgBouncer } from "./server.js";
import { backend, eventually, newPrefix, poolOf, request, SERVER, sleep } from "./tools.js";

const TTL_MS = 30_000;
const STICKY = { sticky: "20s" } as const;
/** Far less than a third of the ttl: only a notification can be so quick. */
const SOON_MS = 3_000;

function opened(options: PostgresOptions, settings: LocksOptions = { ttl: TTL_MS }): Locks {
  const locks = createLocks(backend(options), settings);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

/** Whether its process keeps the claim when no task needs it. */
async function isKept(locks: Locks, name: string, sticky: Duration = STICKY.sticky): Promise<boolean> {
  await locks.mutex(name, { sticky }).run(() => undefined);
  return (await locks.inspect(name)).holders.length === 1;
}

/** Its process listens by now, and keeps a claim of that name. */
function becomesIdle(locks: Locks, name: string, sticky?: Duration): Promise<void> {
  return eventually("the claim is kept", SOON_MS, () => isKept(locks, name, sticky));
}

async function tookMs(work: Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await work;
  return performance.now() - startMs;
}

describe("a sticky claim is kept by a process that listens", () => {
  const clients = {
    pg: (prefix: string) => ({ prefix }),
    "a pool of pg": (prefix: string) => ({ prefix, pool: poolOf() }),
    "postgres.js": (prefix: string) => {
      const sql = sqlOf(SERVER.url, { max: 1 });
      onTestFinished(() => sql.end());
      return { prefix, sql, url: undefined };
    },
  };
  for (const [client, options] of Object.entries(clients)) {
    test(`${client}: and given back when another process waits, or was refused`, async () => {
      const prefix = newPrefix();
      const [locks, other] = [opened(options(prefix)), opened(options(prefix))];
      await becomesIdle(locks, "a");
      expect(await tookMs(other.mutex("a").run(() => undefined))).toBeLessThan(SOON_MS);
      await becomesIdle(locks, "a");
      expect(await other.mutex("a").tryAcquire()).toBeNull();
      await eventually("it is free", SOON_MS, async () => (await locks.inspect("a")).holders.length === 0);
    });
  }
});

describe("a process that does not listen keeps no claim", () => {
  test("with listen: false, though a sticky mutex is allowed", async () => {
    const locks = opened({ listen: false });
    for (let turn = 0; turn < 3; turn++) expect(await isKept(locks, "a")).toBe(false);
    expect(locks.guarantees.tellsHolder).toBe(true);
    expect(locks.guarantees.caveats.join()).toMatch(/a sticky lock is given back at once/);
  });

  test("through PgBouncer in transaction mode, from the first claim on", async () => {
    const bouncer = await startPgBouncer(SERVER);
    onTestFinished(() => bouncer.stop());
    const locks = opened({ url: bouncer.url });
    // It tries for a second whether its own notification is delivered.
    const untilMs = performance.now() + 1_500;
    while (performance.now() < untilMs) {
      expect(await isKept(locks, "a")).toBe(false);
      await sleep(20);
    }
    expect(locks.guarantees.notifications).toBe(false);
  });

  test("a process behind PgBouncer is a waiter as any other: the holder is told", async () => {
    const bouncer = await startPgBouncer(SERVER);
    onTestFinished(() => bouncer.stop());
    const prefix = newPrefix();
    const [locks, other] = [opened({ prefix }), opened({ prefix, url: bouncer.url })];
    await becomesIdle(locks, "a");
    expect(await tookMs(other.mutex("a").run(() => undefined))).toBeLessThan(SOON_MS);
  });

  test("when the connection that listens is lost, all claims that were kept are given back", async () => {
    const prefix = newPrefix();
    const watcher = opened({ prefix });
    const locks = opened({ prefix });
    await becomesIdle(locks, "a");
    await becomesIdle(locks, "b");
    const held = await locks.mutex("b", STICKY).acquire();
    await askPostgres(
      SERVER.url,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity JOIN "${prefix}".claims ON query = 'LISTEN "' || bell || '"'`,
    );
    const isFree = async (name: string) => (await watcher.inspect(name)).holders.length === 0;
    await eventually("the idle one is free", SOON_MS, () => isFree("a"));
    // That which is held is only not kept any more.
    expect(held.held).toBe(true);
    await held.release();
    expect(await isFree("b")).toBe(true);
    await becomesIdle(locks, "a");
  });
});

test("a notification that is lost costs at most a third of the ttl", async () => {
  const prefix = newPrefix();
  const pool = poolOf();
  const listeners = new Set<PoolClient>();
  pool.on("acquire", (client) => void listeners.add(client));
  const ttlMs = 6_000;
  const [locks, other] = [opened({ prefix, pool }, { ttl: ttlMs }), opened({ prefix }, { ttl: ttlMs })];
  await becomesIdle(locks, "a", ttlMs);
  let channels = 0;
  for (const client of listeners) {
    channels += (await client.query("SELECT pg_listening_channels()")).rows.length;
    await client.query("UNLISTEN *");
  }
  expect(channels).toBe(1);
  // Without a renewal that says so, it would wait for the end of the sticky time.
  expect(await tookMs(other.mutex("a").run(() => undefined))).toBeLessThan(ttlMs / 3 + 1_000);
});

/** What a holder hears while others ask, and what its renewal says. */
async function holding(sticky: boolean) {
  const prefix = newPrefix();
  const holder = backend({ prefix });
  const heard: (Notification | undefined)[] = [];
  const owner = {
    instance: "test",
    host: "here",
    pid: 1,
    ...(sticky ? { sticky: true as const } : undefined),
  };
  // A name of its own for each: the process listens from the first claim on, and the second is told.
  const warm = { ...request("warm"), owner, sticky };
  holder.watch(warm, () => {});
  await holder.claim(warm);
  await eventually("it listens", SOON_MS, async () => {
    const listens = `SELECT 1 FROM pg_stat_activity JOIN "${prefix}".claims ON query = 'LISTEN "' || bell || '"'`;
    return (await askPostgres(SERVER.url, listens)).length > 0;
  });
  const mine = { ...request("a"), owner, sticky };
  holder.watch(mine, (notification) => void (notification && heard.push(notification)));
  const answer = await holder.claim(mine);
  if (answer.state !== "granted") throw new Error(answer.state);
  const claim = { name: mine.name, id: mine.id, ticket: answer.ticket, ttlMs: mine.ttlMs };
  const renewed = async (several = false) => {
    // Two claims of one name are looked at together.
    const list = several ? [claim, { ...claim, id: "unknown", ticket: 1n }] : [claim];
    return (await holder.renew(list))[0];
  };
  return { others: backend({ prefix }), heard, ticket: answer.ticket, renewed };
}

describe("what the server tells a holder", () => {
  test("a sticky one: of each refused try while no claim waits, and of the first that waits", async () => {
    const { others, heard, ticket, renewed } = await holding(true);
    const wanted = { state: "wanted", ticket };
    const hears = (times: number) => eventually(`${times} told`, SOON_MS, () => heard.length === times);
    expect(await renewed()).toEqual({ state: "held", remainingMs: expect.any(Number) });
    expect(await renewed(true)).toEqual({ state: "held", remainingMs: expect.any(Number) });
    await others.claim({ ...request("a"), queue: false });
    await hears(1);
    expect(await others.claim({ ...request("a"), maxWaiters: 0 })).toEqual({
      state: "queue-full",
      waiters: 0,
    });
    await hears(2);
    expect(await renewed()).not.toHaveProperty("wanted");
    const first = request("a");
    await others.claim(first);
    await hears(3);
    expect(await renewed()).toMatchObject({ state: "held", wanted: true });
    expect(await renewed(true)).toMatchObject({ state: "held", wanted: true });
    const second = request("a");
    await others.claim(second);
    await others.claim({ ...request("a"), queue: false });
    await others.claim({ ...first });
    await others.release(second);
    await others.release(first);
    await others.claim({ ...request("a"), capacity: 3, weight: 1 });
    await others.claim(request("a"));
    await hears(4);
    await sleep(100);
    expect(heard).toEqual([wanted, wanted, wanted, wanted]);
  });

  test("another one: nothing", async () => {
    const { others, heard, renewed } = await holding(false);
    await others.claim({ ...request("a"), queue: false });
    await others.claim(request("a"));
    await sleep(100);
    expect(heard).toEqual([]);
    expect(await renewed()).toEqual({ state: "held", remainingMs: expect.any(Number) });
  });

  test("that it tells is said to a new sticky claim that is watched and granted at once, and to no other", async () => {
    const one = backend({ prefix: newPrefix() });
    const sticky = (name: string) => ({ ...request(name), sticky: true });
    const watched = <T extends { readonly name: string; readonly id: string }>(claim: T) => {
      one.watch(claim, () => {});
      return claim;
    };
    const granted = { state: "granted", ticket: expect.any(BigInt), remainingMs: expect.any(Number) };
    // Before it listens.
    const first = watched(sticky("a"));
    expect(await one.claim(first)).toEqual(granted);
    await eventually("it listens", SOON_MS, async () => {
      return "tells" in (await one.claim(watched(sticky(`name-${Math.random()}`))));
    });
    const [second, third] = [watched(sticky("a")), watched(sticky("a"))];
    expect(await one.claim(second)).toMatchObject({ state: "waiting" });
    expect(await one.claim(third)).toMatchObject({ state: "waiting" });
    await one.release(first);
    // The answer to its first question was lost, and what came behind it was told to the holder of that time.
    expect(await one.claim(second)).toEqual(granted);
    expect(await one.claim(watched(request("b")))).toEqual(granted);
    expect(await one.claim(sticky("c"))).toEqual(granted);
    expect(await one.claim(watched(sticky("d")))).toEqual({ ...granted, tells: true });
  });
});
