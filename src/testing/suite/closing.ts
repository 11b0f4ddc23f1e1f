import assert from "node:assert/strict";
import type { Lease } from "../../core/lease.js";
import type { Locks } from "../../locks/locks.js";
import { type Case, count, queued, sleep, TTL_MS } from "./bench.js";

/** Waits until the callback runs: others may see a claim before its own answer has arrived. */
async function begin<T>(
  locks: Locks,
  name: string,
  callback: (lease: Lease) => Promise<T>,
): Promise<{ readonly run: Promise<T> }> {
  // Making the first connection must not take its time from the lease.
  await locks.inspect(name);
  let run: Promise<T> | undefined;
  await new Promise<void>((resolve) => {
    run = locks.mutex(name).run((lease) => {
      resolve();
      return callback(lease);
    });
    run.catch(() => undefined);
  });
  return { run: run ?? assert.fail() };
}

export const closing: readonly Case[] = [
  {
    name: "close gives back what was taken with acquire, and takes nothing new",
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const lease = await locks.mutex(name).acquire();
      const { signal } = lease;
      await locks.close();
      assert.equal(lease.held, false);
      assert.equal(signal.reason.loss, "closed");
      await assert.rejects(locks.mutex(name).acquire(), { code: "closed" });
      assert.notEqual(await bench.connect().mutex(name).tryAcquire(), null);
      await locks.close();
    },
  },
  {
    name: "close lets running callbacks finish, and waits for them",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      let finished = false;
      const { run } = await begin(locks, name, async (lease) => {
        await sleep(150);
        lease.assertHeld();
        finished = true;
        return "done";
      });
      await locks.close();
      assert.equal(finished, true);
      assert.equal(await run, "done");
      assert.notEqual(await bench.connect().mutex(name).tryAcquire(), null);
    },
  },
  {
    name: "a callback that outlasts the drain is told, gets its time, and then its lock is free",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const { run } = await begin(locks, name, async ({ signal }) => {
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        await sleep(50);
      });
      await locks.close({ drain: 50, abort: "5s" });
      await assert.rejects(run, { code: "lost", loss: "closed" });
      assert.notEqual(await bench.connect().mutex(name).tryAcquire(), null);
    },
  },
  {
    name: "a callback that does not stop is not released: no other holder is let in beside it before the ttl is over",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const other = await bench.opened();
      const locks = bench.connect({ ttl: TTL_MS });
      let release: () => void = () => {};
      const { run } = await begin(locks, name, () => new Promise<void>((resolve) => (release = resolve)));
      await locks.close({ drain: 20, abort: 20 });
      assert.equal(await other.mutex(name).tryAcquire(), null);
      assert.equal((await other.mutex(name).acquire()).held, true);
      release();
      await assert.rejects(run, { code: "lost", loss: "closed" });
    },
  },
  {
    name: "while a closing connection waits for its callbacks, their locks are renewed",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect({ ttl: 1_200 });
      let ended = false;
      await begin(locks, name, async ({ signal }) => {
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        await sleep(900);
        ended = true;
      });
      const closed = locks.close({ drain: 900, abort: "5s" });
      const other = bench.connect();
      while (!ended) {
        const lease = await other.mutex(name).tryAcquire();
        assert(lease === null || ended, "no other holder is let in beside it");
        await sleep(100);
      }
      await closed;
    },
  },
  {
    name: "when closing begins, every holder hears of it at once by closing, and goes on undisturbed",
    waits: true,
    async run(bench) {
      const locks = bench.connect();
      let seen: readonly unknown[] = [];
      const { run } = await begin(locks, bench.name(), async (lease) => {
        assert.equal(lease.closing.aborted, false);
        await new Promise((resolve) => lease.closing.addEventListener("abort", resolve));
        seen = [lease.held, lease.signal.aborted, locks.closing.aborted, lease.closing.reason.code];
        return "done";
      });
      await locks.close({ drain: "20s" });
      assert.deepEqual(seen, [true, false, true, "closed"]);
      assert.match(String(locks.closing.reason), /shutting down/);
      assert.equal(await run, "done");
    },
  },
  {
    name: "when closing begins, a leader is told to stop, and lead resolves with what it returns",
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const [leads, candidate] = [locks.election(name), locks.election(name)];
      let elected = () => {};
      const isElected = new Promise<void>((resolve) => (elected = resolve));
      const term = leads.lead(async ({ signal }) => {
        elected();
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        return signal.reason.loss;
      });
      await isElected;
      const standsBy = assert.rejects(
        candidate.lead(() => "never"),
        { code: "closed", message: /^shutting down/ },
      );
      const startedAt = performance.now();
      await locks.close({ drain: "20s" });
      assert(performance.now() - startedAt < 10_000, "it was told before the drain was over");
      assert.equal(await term, "closed");
      await standsBy;
      assert.notEqual(await bench.connect().mutex(name).tryAcquire(), null);
    },
  },
  {
    name: "close sends waiters away and their places go",
    async run(bench) {
      const name = bench.name();
      const watcher = bench.connect();
      const holder = await watcher.mutex(name).acquire();
      const locks = bench.connect(bench.strict);
      const waits = [1, 2, 3].map(() => locks.mutex(name).acquire({ wait: Infinity }));
      const told = { code: "closed", message: /^shutting down/ };
      const rejected = Promise.all(waits.map((wait) => assert.rejects(wait, told)));
      await queued(watcher, name, 3);
      await locks.close();
      await rejected;
      assert.deepEqual(await count(watcher, name), { holders: 1, waiters: 0 });
      assert.equal(holder.held, true);
    },
  },
];
