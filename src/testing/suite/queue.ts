import assert from "node:assert/strict";
import type { Backend } from "../../core/backend.js";
import {
  type Case,
  count,
  eventually,
  passing,
  queued,
  SLACK_MS,
  sleep,
  TTL_MS,
  withoutNotifications,
} from "./bench.js";

/** Counts what goes to the engine. */
class Calls {
  claim = 0;
  release = 0;
  /** Whose question the engine has answered. */
  readonly answered = new Set<string>();
}

function counting(calls: Calls): (backend: Backend) => Backend {
  return (backend) => ({
    ...passing(backend),
    async claim(request) {
      calls.claim++;
      const answer = await backend.claim(request);
      calls.answered.add(request.id);
      return answer;
    },
    release(claim, ending) {
      calls.release++;
      return backend.release(claim, ending);
    },
  });
}

export const queue: readonly Case[] = [
  {
    name: "waiters are served in the order in which they came, across connections",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const connections = [1, 2, 3].map(() => bench.connect({ fair: true }));
      const holder = await bench.connect().mutex(name).acquire();
      const order: number[] = [];
      const waits: Promise<void>[] = [];
      for (let index = 0; index < 9; index++) {
        waits.push(connections[index % 3]?.mutex(name).run(() => void order.push(index)) ?? Promise.reject());
        await queued(connections[0] ?? assert.fail(), name, index + 1);
      }
      await holder.release();
      await Promise.all(waits);
      assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    },
  },
  {
    name: "a release lets the next one in long before any poll or expiry",
    async run(bench) {
      const name = bench.name();
      const holder = await bench.connect().mutex(name).acquire();
      const waiting = bench.connect().mutex(name).acquire();
      await queued(bench.connect(), name, 1);
      const releasedAt = performance.now();
      await holder.release();
      await waiting;
      assert(performance.now() - releasedAt < SLACK_MS * 2);
    },
  },
  {
    name: "trying neither waits nor leaves a place nor draws a ticket",
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const holder = await bench.connect().mutex(name).acquire();
      assert.equal(await locks.mutex(name).tryAcquire(), null);
      const refused = await locks.mutex(name).tryRun(() => assert.fail("must not run"));
      assert(!refused.ran);
      assert.equal(refused.blockers[0]?.token, holder.token);
      await assert.rejects(locks.mutex(name).acquire({ wait: 0 }), { code: "timeout" });
      assert.deepEqual(await count(locks, name), { holders: 1, waiters: 0 });
      await holder.release();
      assert.deepEqual(await count(locks, name), { holders: 0, waiters: 0 });
      assert.deepEqual(await locks.mutex(name).tryRun(() => 7), { ran: true, value: 7 });
    },
  },
  {
    name: "a try does not overtake the waiters",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const holder = await bench.connect().mutex(name).acquire();
      const order: string[] = [];
      const waiting = bench
        .connect()
        .mutex(name)
        .run(async () => {
          order.push("waiter");
          await sleep(30);
        });
      await queued(bench.connect(), name, 1);
      await holder.release();
      const tried = await bench
        .connect()
        .mutex(name)
        .tryRun(() => order.push("trier"));
      await waiting;
      if (tried.ran) assert.deepEqual(order, ["waiter", "trier"]);
    },
  },
  {
    name: "scenario S7: of many waiters a release wakes one, and its cost does not grow with the queue",
    needs: ["queue"],
    notOfPermits: "a permit may wake as many as there are permits, each of which may be next",
    async run(bench) {
      const name = bench.name();
      const many = Math.min(1_000, 2 * (bench.harness.crowd?.waiters ?? 1_000));
      const calls = new Calls();
      const locks = bench.connect({ ttl: "60s", fair: true }, counting(calls));
      const mutex = locks.mutex(name);
      const holder = await mutex.acquire();
      let running = 0;
      const waits = Array.from({ length: many }, () =>
        mutex.run({ wait: "60s" }, async () => {
          assert.equal(++running, 1);
          await Promise.resolve();
          running--;
        }),
      );
      // If anything fails before they are awaited, they fail with it, and that is no news.
      for (const wait of waits) wait.catch(() => undefined);
      await queued(bench.connect(), name, many);
      // A busy engine may have them in its queue before all of them know: one that does not know will ask again.
      await eventually("all know that they wait", 30_000, () => calls.answered.size === many + 1);
      calls.claim = 0;
      calls.release = 0;
      await holder.release();
      await Promise.all(waits);
      assert.equal(calls.release, many + 1);
      // Where a notification is a grant no claim asks again; where it is a hint, each asks once; a few for chance.
      assert(calls.claim <= many + 50, `${calls.claim} claims for ${many} grants`);
    },
  },
  {
    name: "scenario S9: a waiter that gives up is gone from the queue when its error is told",
    async run(bench) {
      const name = bench.name();
      const watcher = bench.connect();
      const holder = await bench.connect().mutex(name).acquire();
      const startedAt = performance.now();
      await assert.rejects(bench.connect().mutex(name).acquire({ wait: 150 }), { code: "timeout" });
      assert(performance.now() - startedAt >= 145);
      assert.deepEqual(await count(watcher, name), { holders: 1, waiters: 0 });
      await holder.release();
      assert.notEqual(await watcher.mutex(name).tryAcquire(), null);
    },
  },
  {
    name: "scenario S9: a cancelled waiter rejects at once with the caller's reason, and its place goes",
    async run(bench) {
      const name = bench.name();
      const watcher = bench.connect();
      const holder = await bench.connect().mutex(name).acquire();
      const locks = bench.connect();
      const controller = new AbortController();
      const waiting = locks.mutex(name).acquire({ signal: controller.signal, wait: Infinity });
      await queued(watcher, name, 1);
      const reason = new Error("changed my mind");
      controller.abort(reason);
      await assert.rejects(waiting, (error) => error === reason);
      await queued(watcher, name, 0);
      await assert.rejects(
        locks.mutex(name).acquire({ signal: AbortSignal.abort(reason) }),
        (error) => error === reason,
      );
      await holder.release();
      assert.notEqual(await watcher.mutex(name).tryAcquire(), null);
    },
  },
  {
    name: "scenario S9: a claim that is cancelled in mid-flight leaves neither a lease nor a place",
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect({ ttl: "60s" });
      await locks.mutex(name).run(() => undefined);
      for (let round = 0; round < 20; round++) {
        // An engine in this process may want the event loop to turn before it takes the next claim.
        await sleep(1);
        const controller = new AbortController();
        const asked = locks.mutex(name).acquire({ signal: controller.signal });
        controller.abort(new Error("too late"));
        await assert.rejects(asked, { message: "too late" });
      }
      await eventually("no claim is left", 5_000, async () => {
        const { holders, waiters } = await count(locks, name);
        return holders + waiters === 0;
      });
    },
  },
  {
    name: "scenario S23: a waiter gets in although every notification is lost",
    async run(bench) {
      const name = bench.name();
      const holder = await bench.connect({ ttl: "60s" }).mutex(name).acquire();
      const waiting = bench.connect({ ttl: TTL_MS }, withoutNotifications).mutex(name).acquire();
      await queued(bench.connect(), name, 1);
      const releasedAt = performance.now();
      await holder.release();
      await waiting;
      // The heartbeat of its place tells it, at a third of the ttl.
      assert(performance.now() - releasedAt < TTL_MS / 3 + SLACK_MS);
    },
  },
  {
    name: "a queue that is full turns newcomers away at once, and only them",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const holder = await locks.mutex(name).acquire();
      const capped = locks.mutex(name, { maxWaiters: 2 });
      const waits = [capped.run(() => 1), capped.run(() => 2)];
      await queued(locks, name, 2);
      await assert.rejects(capped.acquire(), { code: "queue-full" });
      await assert.rejects(locks.mutex(name).acquire({ maxWaiters: 1 }), { code: "queue-full" });
      assert.deepEqual(await count(locks, name), { holders: 1, waiters: 2 });
      await holder.release();
      assert.deepEqual(await Promise.all(waits), [1, 2]);
    },
  },
  {
    name: "a waiter keeps its place for much longer than its ttl",
    waits: true,
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const holder = await bench.connect().mutex(name).acquire();
      const order: string[] = [];
      const first = bench
        .connect({ ttl: TTL_MS })
        .mutex(name)
        .run(() => void order.push("first"));
      await queued(bench.connect(), name, 1);
      const second = bench
        .connect()
        .mutex(name)
        .run(() => void order.push("second"));
      await queued(bench.connect(), name, 2);
      await sleep(TTL_MS * 2.5);
      await holder.release();
      await Promise.all([first, second]);
      assert.deepEqual(order, ["first", "second"]);
    },
  },
];
