import assert from "node:assert/strict";
import { once } from "node:events";
import type { LockEvent } from "../../core/events.js";
import { eventually, queued, RAN_OUT, SLACK_MS, sleep, TTL_MS } from "./bench.js";
import { onWires } from "./network.js";

const LONG_MS = 4_000;

export const outages = onWires([
  {
    name: "a lock that could not be given back in an outage is free soon after it, long before its ttl",
    async run(bench) {
      const name = bench.name();
      const { locks, proxy } = await bench.proxied({ ttl: "60s" });
      const lease = await locks.mutex(name).acquire();
      proxy.refuse();
      await assert.rejects(lease.release(), { code: "backend", retryable: true });
      proxy.heal();
      assert.notEqual(await bench.connect().mutex(name).acquire({ wait: "20s" }), null);
    },
  },
  {
    name: "a holder that is cut off is told before the next holder is let in",
    async run(bench) {
      const name = bench.name();
      const { locks, proxy } = await bench.proxied({ ttl: TTL_MS });
      const lease = await locks.mutex(name).acquire();
      let toldAt = Number.NaN;
      lease.signal.addEventListener("abort", () => {
        toldAt = performance.now();
      });
      proxy.blackhole("both");
      await bench.connect().mutex(name).acquire();
      const enteredAt = performance.now();
      assert(toldAt <= enteredAt, `told ${toldAt}, next one in ${enteredAt}`);
      assert.match(lease.signal.reason.loss, RAN_OUT);
    },
  },
  {
    name: "a holder whose replies do not arrive is told before the next holder is let in",
    async run(bench) {
      const name = bench.name();
      const { locks, proxy } = await bench.proxied({ ttl: TTL_MS });
      const lease = await locks.mutex(name).acquire();
      proxy.blackhole("to-client");
      if (!lease.signal.aborted) await once(lease.signal, "abort");
      assert.match(lease.signal.reason.loss, RAN_OUT);
      assert.equal(lease.held, false);
      proxy.heal();
      assert.equal((await bench.connect().mutex(name).acquire()).held, true);
    },
  },
  {
    name: "an outage shorter than the ttl costs no holder its lease, and failed renewals are told as events",
    async run(bench) {
      const events: LockEvent[] = [];
      const { locks, proxy } = await bench.proxied({ ttl: LONG_MS, onEvent: (event) => events.push(event) });
      const lease = await locks.mutex(bench.name()).acquire();
      const grantedAt = performance.now();
      proxy.refuse();
      await eventually("a renewal has failed", LONG_MS / 2, () =>
        events.some(({ type }) => type === "renew-failed"),
      );
      proxy.heal();
      // Until after the end of what was granted at first.
      await sleep(grantedAt + LONG_MS * 1.1 - performance.now());
      assert.equal(lease.held, true);
      assert.equal(await lease.release(), true);
    },
  },
  {
    name: "a wait rides through an outage that is shorter than its ttl",
    async run(bench) {
      const name = bench.name();
      const holder = await bench.connect().mutex(name).acquire();
      const { locks, proxy } = await bench.proxied({ ttl: LONG_MS });
      const waiting = locks.mutex(name).acquire();
      await queued(bench.connect(), name, 1);
      proxy.refuse();
      await sleep(200);
      await holder.release();
      await sleep(200);
      proxy.heal();
      assert.equal((await waiting).held, true);
    },
  },
  {
    name: "an outage that lasts is an error of the engine, never a timeout, and comes when the wait ends",
    async run(bench) {
      const { locks, proxy } = await bench.proxied({ ttl: "60s" });
      await locks.mutex(bench.name()).run(() => undefined);
      proxy.refuse();
      const startedAt = performance.now();
      await assert.rejects(locks.mutex(bench.name()).acquire({ wait: 500 }), {
        code: "backend",
        retryable: true,
      });
      const tookMs = performance.now() - startedAt;
      assert(tookMs >= 450 && tookMs < 500 + 2_000 + SLACK_MS, `${tookMs} ms`);
      await assert.rejects(locks.mutex(bench.name()).tryAcquire(), { code: "backend" });
      proxy.heal();
    },
  },
  {
    name: "a longer wait gives up on an outage after one ttl",
    async run(bench) {
      const { locks, proxy } = await bench.proxied({ ttl: 500 });
      await locks.mutex(bench.name()).run(() => undefined);
      proxy.refuse();
      const startedAt = performance.now();
      await assert.rejects(locks.mutex(bench.name()).acquire({ wait: "60s" }), { code: "backend" });
      assert(performance.now() - startedAt < 500 + 2_000 + SLACK_MS);
      proxy.heal();
    },
  },
  {
    name: "a wait that sleeps in the queue while the engine goes away ends as an outage, never as a timeout",
    async run(bench) {
      const name = bench.name();
      await bench.connect({ ttl: "60s" }).mutex(name).acquire();
      const { locks, proxy } = await bench.proxied({ ttl: "60s" });
      const waiting = locks.mutex(name).acquire({ wait: 2_000 });
      const ended = assert.rejects(waiting, { code: "backend", retryable: true });
      await queued(bench.connect(), name, 1);
      proxy.blackhole("both");
      await ended;
      proxy.heal();
    },
  },
  {
    name: "a longer one ends as an outage, too, and long before its wait is over",
    async run(bench) {
      const name = bench.name();
      await bench.connect({ ttl: "60s" }).mutex(name).acquire();
      const { locks, proxy } = await bench.proxied({ ttl: TTL_MS });
      const waiting = locks.mutex(name).acquire({ wait: "60s" });
      const ended = assert.rejects(waiting, { code: "backend", retryable: true });
      await queued(bench.connect(), name, 1);
      proxy.blackhole("both");
      const startedAt = performance.now();
      await ended;
      // The waiter asks after 6 s at the latest, and then for one ttl.
      assert(performance.now() - startedAt < 30_000);
      proxy.heal();
    },
  },
  {
    name: "a connection that the server dropped is made anew, and waiters ask again at once",
    async run(bench) {
      const name = bench.name();
      const holder = await bench.connect().mutex(name).acquire();
      const { locks, proxy } = await bench.proxied({ ttl: "30s" });
      const waiting = locks.mutex(name).acquire();
      await queued(bench.connect(), name, 1);
      proxy.dropAll();
      await holder.release();
      const startedAt = performance.now();
      await waiting;
      // Long before the heartbeat of its place at 10 s.
      assert(performance.now() - startedAt < 5_000);
    },
  },
]);
