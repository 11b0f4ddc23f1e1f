import assert from "node:assert/strict";
import { type Case, count, moment, queued, sleep, TTL_MS } from "./bench.js";

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
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      let finished = false;
      const begun = moment();
      const run = locks.mutex(name).run(async (lease) => {
        begun.comes();
        await sleep(150);
        lease.assertHeld();
        finished = true;
        return "done";
      });
      await begun.come;
      await locks.close();
      assert.equal(finished, true);
      assert.equal(await run, "done");
      assert.notEqual(await bench.connect().mutex(name).tryAcquire(), null);
    },
  },
  {
    name: "a callback that outlasts the drain is told, gets its time, and then its lock is free",
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const begun = moment();
      const run = locks.mutex(name).run(async ({ signal }) => {
        begun.comes();
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        await sleep(50);
      });
      run.catch(() => undefined);
      await begun.come;
      await locks.close({ drain: 50, abort: "5s" });
      await assert.rejects(run, { code: "lost", loss: "closed" });
      assert.notEqual(await bench.connect().mutex(name).tryAcquire(), null);
    },
  },
  {
    name: "a callback that does not stop is not released: nobody is let in beside it before the ttl is over",
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect({ ttl: TTL_MS });
      const [begun, end] = [moment(), moment()];
      const run = locks.mutex(name).run(() => {
        begun.comes();
        return end.come;
      });
      run.catch(() => undefined);
      await begun.come;
      await locks.close({ drain: 20, abort: 20 });
      const other = bench.connect();
      assert.equal(await other.mutex(name).tryAcquire(), null);
      assert.equal((await other.mutex(name).acquire()).held, true);
      end.comes();
      await assert.rejects(run, { code: "lost", loss: "closed" });
    },
  },
  {
    name: "while a closing connection waits for its callbacks, their locks are renewed",
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect({ ttl: 600 });
      const begun = moment();
      const run = locks.mutex(name).run(async ({ signal }) => {
        begun.comes();
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        await sleep(900);
      });
      run.catch(() => undefined);
      await begun.come;
      const closed = locks.close({ drain: 900, abort: "5s" });
      const other = bench.connect();
      for (let round = 0; round < 15; round++) {
        assert.equal(await other.mutex(name).tryAcquire(), null);
        await sleep(100);
      }
      await closed;
    },
  },
  {
    name: "close sends waiters away and their places go",
    async run(bench) {
      const name = bench.name();
      const watcher = bench.connect();
      const holder = await watcher.mutex(name).acquire();
      const locks = bench.connect();
      const waits = [1, 2, 3].map(() => locks.mutex(name).acquire({ wait: Infinity }));
      const rejected = Promise.all(waits.map((wait) => assert.rejects(wait, { code: "closed" })));
      await queued(watcher, name, 3);
      await locks.close();
      await rejected;
      assert.deepEqual(await count(watcher, name), { holders: 1, waiters: 0 });
      assert.equal(holder.held, true);
    },
  },
];
