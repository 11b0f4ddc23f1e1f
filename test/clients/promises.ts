import { createLocks, type LocksOptions } from "locktender";
import { type FaultProxy, type Harness, startFaultProxy } from "locktender/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { run } from "../core/program.js";

interface Address {
  readonly host: string;
  readonly port: number;
}

/** One way to connect by a client library. */
export interface Opened {
  readonly backend: Backend;
  /** For a client that the caller has made: whether it still works after our close(). */
  readonly stillWorks?: () => Promise<unknown>;
  /** What the caller does with it in the end. */
  readonly end?: () => unknown;
}

export type Open = (at: Address) => Opened | Promise<Opened>;

const NOWHERE: Address = { host: "127.0.0.1", port: 1 };
const SOON = { timeout: 10_000, interval: 10 };
/** Long enough for a busy machine; etcd counts in seconds. */
const SHORT_TTL_MS = 2_000;

/** What an engine has no need of is not registered. */
const leftOut = (_name: string, _body: () => Promise<void>): void => undefined;

/** What the caller of one version of a client library relies on, in a few seconds. */
export function clientPromises(harness: Harness, ways: Readonly<Record<string, Open>>): void {
  for (const [way, open] of Object.entries(ways)) {
    describe(`${harness.engine}, ${way}`, () => promisesOf(harness, open));
  }
  const { processes } = harness;
  const inProcesses = "skip" in processes ? leftOut : test;
  inProcesses(
    `${harness.engine}: a program that has finished ends, though it has closed nothing and holds a lock`,
    async () => {
      const { module = "", args = {} } = "skip" in processes ? {} : processes;
      const { code, signal, out, err } = await run(`
        const { default: open } = await import(${JSON.stringify(module)});
        const locks = createLocks(await open(${JSON.stringify(args)}));
        const mutex = locks.mutex("ends");
        const first = await mutex.acquire();
        const second = mutex.acquire();
        await sleep(200);
        await first.release();
        const { held } = await second;
        console.log(held);
      `);
      expect({ code, signal, out, err }).toEqual({ code: 0, signal: null, out: "true\n", err: "" });
    },
  );
}

function promisesOf(harness: Harness, open: Open): void {
  const { network } = harness;

  /** Through a proxy of its own, if there is a network, and another connection that goes straight to the server. */
  async function connected(options: LocksOptions = {}) {
    const proxy = await startFaultProxy({ target: "skip" in network ? NOWHERE : network.target });
    onTestFinished(() => proxy.close());
    const opened = await open(proxy);
    const locks = createLocks(opened.backend, options);
    const other = createLocks(harness.open(), options);
    onTestFinished(async () => {
      await Promise.all([locks, other].map((one) => one.close({ drain: 0, abort: 0 })));
      await opened.end?.();
    });
    return { ...opened, proxy, locks, other };
  }

  const queued = async (locks: ReturnType<typeof createLocks>, name: string, waiters: number) => {
    await expect.poll(async () => (await locks.inspect(name)).waiters.length, SOON).toBe(waiters);
  };

  test("a lock is held beyond its ttl, waited for, and handed over in order, with growing tokens", async () => {
    const { locks, other } = await connected({ ttl: SHORT_TTL_MS });
    const first = await locks.mutex("order").acquire();
    const waits = [other.mutex("order").acquire()];
    await queued(other, "order", 1);
    waits.push(locks.mutex("order").acquire());
    await queued(other, "order", 2);
    expect(await other.mutex("order").tryAcquire()).toBeNull();
    await new Promise((resolve) => setTimeout(resolve, 1.5 * SHORT_TTL_MS));
    const leases = [first];
    for (const wait of waits) {
      const before = leases.at(-1);
      expect(before?.held).toBe(true);
      expect(await before?.release()).toBe(true);
      leases.push(await wait);
    }
    const tokens = leases.map(({ token }) => token);
    expect(tokens).toEqual(tokens.toSorted((a, b) => Number(a - b)));
    expect(new Set(tokens).size).toBe(3);
    await leases.at(-1)?.release();
  });

  test("what the server has lost, or was told to take away, is told to the holder", async () => {
    const { locks, other } = await connected({ ttl: SHORT_TTL_MS });
    const forgotten = await locks.mutex("forgotten").acquire();
    if ("skip" in harness.wipe) throw new Error(harness.wipe.skip);
    await harness.wipe();
    await expect.poll(() => forgotten.signal.aborted, SOON).toBe(true);
    const forced = await locks.mutex("forced").acquire();
    await other.forceRelease("forced", { reason: "to see that it is told" });
    await expect.poll(() => forced.signal.reason, SOON).toMatchObject({ loss: "forced" });
    await locks.mutex("forgotten").run(() => undefined);
  });

  const overNetwork = "skip" in network ? leftOut : test;

  overNetwork(
    "a connection that was cut is made anew: what is held stays, what waits is served",
    async () => {
      const { proxy, locks, other } = await connected({ ttl: "10s" });
      const held = await locks.mutex("held").acquire();
      const blocking = await other.mutex("waited").acquire();
      const waiting = locks.mutex("waited").acquire({ wait: "20s" });
      await queued(other, "waited", 1);
      proxy.dropAll();
      await locks.mutex("new").run({ wait: "10s" }, () => undefined);
      expect(held.held).toBe(true);
      await blocking.release();
      await (await waiting).release();
      expect(await held.release()).toBe(true);
    },
  );

  overNetwork(
    "a holder that is cut off for longer than its ttl is told, and works again afterwards",
    async () => {
      const { proxy, locks, other } = await connected({ ttl: SHORT_TTL_MS });
      const lost = await locks.mutex("lost").acquire();
      proxy.refuse();
      await expect.poll(() => lost.signal.aborted, SOON).toBe(true);
      const successor = await other.mutex("lost").acquire({ wait: "10s" });
      proxy.heal();
      await successor.release();
      // A wait rides through an outage for one ttl, and the library may pause for longer before it connects again.
      const again = await locks.mutex("lost").acquire({ wait: "10s", ttl: "15s" });
      expect(again.token).toBeGreaterThan(successor.token);
      expect(await again.release()).toBe(true);
    },
  );

  test("close() frees what is held, sends waiters away, and closes what is ours alone", async () => {
    const { proxy, locks, other, stillWorks } = await connected();
    await locks.mutex("closed").acquire();
    const waiting = expect(locks.mutex("closed").acquire()).rejects.toMatchObject({ code: "closed" });
    await queued(other, "closed", 1);
    await locks.close();
    await locks.close();
    await waiting;
    expect((await other.inspect("closed")).holders).toEqual([]);
    if (stillWorks === undefined) await noneLeft(proxy);
    else await stillWorks();
  });
}

async function noneLeft(proxy: FaultProxy): Promise<void> {
  await expect.poll(() => proxy.connections, SOON).toBe(0);
}

/** By a URL: we make the client. */
export function byUrl({ network }: Harness): Open {
  if ("skip" in network) throw new Error(network.skip);
  return (at) => ({ backend: network.open(at, []) });
}

/** The options of a harness, for clients that the caller makes: they meet it at the same locks. */
export function prefixOf({ processes }: Harness): string {
  if ("skip" in processes) throw new Error(processes.skip);
  return (processes.args as { readonly prefix: string }).prefix;
}
