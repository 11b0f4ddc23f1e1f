import assert from "node:assert/strict";
import { type Case, count, eventually, holds, queued, SLACK_MS, sleep, TTL_MS } from "./bench.js";

/** A store that refuses a write with an older token than the newest it has seen. */
class FencedStore {
  #newest = 0n;
  readonly written: string[] = [];

  write(token: bigint, value: string): boolean {
    if (token < this.#newest) return false;
    this.#newest = token;
    this.written.push(value);
    return true;
  }
}

function expiryMs(granularityMs: number): number {
  return TTL_MS * 1.1 + granularityMs + SLACK_MS;
}

export const crashes: readonly Case[] = [
  {
    name: "scenario S1: when a holder is killed, the next waiter is in soon after the ttl",
    waits: true,
    needs: ["processes"],
    async run(bench) {
      const name = bench.name();
      const worker = await bench.worker({ ttl: TTL_MS });
      const { token } = await worker.acquire(name);
      const locks = bench.connect();
      const waiting = locks.mutex(name).acquire();
      await queued(locks, name, 1);
      await worker.kill();
      const killedAt = performance.now();
      const lease = await waiting;
      assert(performance.now() - killedAt <= expiryMs(locks.guarantees.expiryGranularityMs));
      assert(lease.token > BigInt(token));
    },
  },
  {
    name: "several processes exclude each other, and their tokens grow",
    waits: true,
    needs: ["processes"],
    async run(bench) {
      const name = bench.name();
      const workers = await Promise.all([1, 2, 3].map(() => bench.worker({ ttl: "10s" })));
      let last = 0n;
      let inside = 0;
      await Promise.all(
        workers.map(async (worker) => {
          for (let round = 0; round < 10; round++) {
            const { lease, token } = await worker.acquire(name);
            assert.equal(++inside, 1);
            assert(BigInt(token) > last);
            last = BigInt(token);
            inside--;
            assert.equal(await worker.release(lease), true);
          }
        }),
      );
    },
  },
  {
    name: "scenario S5: a holder that is stopped past its expiry finds itself out, and its late write is refused",
    waits: true,
    needs: ["processes"],
    async run(bench) {
      const name = bench.name();
      const store = new FencedStore();
      const worker = await bench.worker({ ttl: TTL_MS });
      const stale = await worker.acquire(name);
      assert(store.write(BigInt(stale.token), "before the pause"));
      worker.signal("SIGSTOP");
      const successor = await bench.connect().mutex(name).acquire();
      assert(store.write(successor.token, "by the successor"));
      const asked = worker.look(stale.lease);
      worker.signal("SIGCONT");
      assert.equal((await asked).held, false);
      assert.equal(store.write(BigInt(stale.token), "too late"), false);
      await eventually("its signal aborts", SLACK_MS, async () => (await worker.look(stale.lease)).aborted);
      assert.equal((await worker.look(stale.lease)).loss, "paused");
      assert.equal(await worker.release(stale.lease), false);
      assert.equal(successor.held, true);
      assert.deepEqual(store.written, ["before the pause", "by the successor"]);
    },
  },
  {
    name: "scenario S8: a waiter that is killed in the queue is skipped within its own ttl",
    waits: true,
    needs: ["processes"],
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const holder = await locks.mutex(name).acquire();
      const dying = await bench.worker({ ttl: TTL_MS, ...bench.strict });
      const lost = Array.from({ length: 5 }, () => dying.acquire(name));
      for (const wait of lost) wait.catch(() => undefined);
      await queued(locks, name, 5);
      const behind = bench.connect().mutex(name).acquire({ wait: "8s" });
      behind.catch(() => undefined);
      await queued(locks, name, 6);
      await dying.kill();
      const killedAt = performance.now();
      await holder.release();
      await behind;
      assert(performance.now() - killedAt <= expiryMs(locks.guarantees.expiryGranularityMs));
    },
  },
  {
    name: "a dead waiter is gone from the queue even while the holder goes on",
    waits: true,
    needs: ["queue", "processes"],
    async run(bench) {
      const name = bench.name();
      // Only the claim of the waiter is to expire: a busy machine must not cost the holder its lease.
      const locks = bench.connect({ ttl: "30s" });
      await locks.mutex(name).acquire();
      const dying = await bench.worker({ ttl: TTL_MS });
      dying.acquire(name).catch(() => undefined);
      await queued(locks, name, 1);
      await dying.kill();
      await eventually(
        "the queue is empty",
        TTL_MS * 1.5 + SLACK_MS,
        async () => (await count(locks, name)).waiters === 0,
      );
    },
  },
  {
    name: "scenario S12: a client's wall clock has no effect at all",
    waits: true,
    needs: ["processes"],
    async run(bench) {
      const name = bench.name();
      const hour = 3_600_000;
      const [early, late] = await Promise.all([
        bench.worker({ ttl: TTL_MS }, { skewMs: -hour }),
        bench.worker({ ttl: TTL_MS }, { skewMs: hour }),
      ]);
      const locks = bench.connect();
      const first = await late.acquire(name);
      const second = early.acquire(name);
      await queued(locks, name, 1);
      const { queueing } = locks.guarantees;
      const third = queueing ? late.acquire(name) : undefined;
      await queued(locks, name, 2);
      // No process is taken for dead, none overtakes, and the tokens grow.
      await sleep(TTL_MS * 1.5);
      assert.deepEqual(await count(locks, name), { holders: 1, waiters: queueing ? 2 : 0 });
      assert.equal((await late.look(first.lease)).held, true);
      await late.release(first.lease);
      const granted = await second;
      assert(BigInt(granted.token) > BigInt(first.token));
      await early.release(granted.lease);
      const last = await (third ?? late.acquire(name));
      assert(BigInt(last.token) > BigInt(granted.token));
    },
  },
  {
    name: "on SIGTERM, when asked for, what is held is given back before the process ends by the signal",
    waits: true,
    needs: ["processes"],
    async run(bench) {
      const name = bench.name();
      const worker = await bench.worker({ ttl: "60s", closeOnSignals: { drain: 0, abort: 0 } });
      await worker.acquire(name);
      worker.signal("SIGTERM");
      assert.deepEqual(await worker.exited, { code: null, signal: "SIGTERM" });
      assert.notEqual(await bench.connect().mutex(name).tryAcquire(), null);
    },
  },
  {
    name: "on SIGTERM, a callback that does not stop keeps its lock until the ttl is over",
    waits: true,
    needs: ["processes"],
    async run(bench) {
      const name = bench.name();
      const worker = await bench.worker({ ttl: TTL_MS, closeOnSignals: { drain: 50, abort: 50 } });
      await worker.runForEver(name);
      const locks = bench.connect();
      await holds(locks, name);
      worker.signal("SIGTERM");
      await worker.exited;
      assert.equal(await locks.mutex(name).tryAcquire(), null);
      assert.equal((await locks.mutex(name).acquire()).held, true);
    },
  },
];
