import assert from "node:assert/strict";
import { once } from "node:events";
import type { LockEvent } from "../../core/events.js";
import type { HeldBack } from "../faults.js";
import { type Bench, type Case, count, eventually, queued, SLACK_MS, sleep, TTL_MS } from "./bench.js";

const LONG_MS = 4_000;

/** Where a server ends what a client has left behind, the promise is that nothing can be delivered late. */
async function deliverLate({ harness }: Bench, held: HeldBack): Promise<void> {
  const impossible = "target" in harness.network && harness.network.endsStaleConnections === true;
  if (impossible) await assert.rejects(held.deliver(), /the server has closed the connection/);
  else await held.deliver();
}

export const network: readonly Case[] = [
  {
    name: "scenario S13: when the reply to a claim is lost, the retry finds its own claim, once",
    waits: true,
    needs: ["network"],
    async run(bench) {
      const name = bench.name();
      const watcher = bench.connect();
      const { locks, proxy } = await bench.proxied({ ttl: LONG_MS });
      await locks.mutex(bench.name()).run(() => undefined);
      const cut = proxy.cutBeforeReply((data) => data.includes(name));
      const asked = locks.mutex(name).acquire();
      await cut;
      const [claimed] = (await watcher.inspect(name)).holders;
      const lease = await asked;
      // Where no queue is kept, servers agree on a ticket only when they answer.
      if (locks.guarantees.queueing) assert.equal(lease.token, claimed?.token);
      assert.deepEqual(await count(watcher, name), { holders: 1, waiters: 0 });
      assert.equal(await lease.release(), true);
      assert.deepEqual(await count(watcher, name), { holders: 0, waiters: 0 });
    },
  },
  {
    name: "scenario S13: when the reply to a release is lost, the release still counts as ours",
    waits: true,
    needs: ["network"],
    async run(bench) {
      const name = bench.name();
      const { locks, proxy } = await bench.proxied({ ttl: LONG_MS });
      const lease = await locks.mutex(name).acquire();
      const cut = proxy.cutBeforeReply((data) => data.includes(name));
      const released = lease.release();
      await cut;
      assert.equal(await released, true);
      assert.notEqual(await bench.connect().mutex(name).tryAcquire(), null);
    },
  },
  {
    name: "a try whose reply is lost is an error, and leaves no lock behind",
    waits: true,
    needs: ["network"],
    async run(bench) {
      const name = bench.name();
      const watcher = bench.connect();
      const { locks, proxy } = await bench.proxied({ ttl: "60s" });
      await locks.mutex(bench.name()).run(() => undefined);
      const cut = proxy.cutBeforeReply((data) => data.includes(name));
      await assert.rejects(locks.mutex(name).tryAcquire(), { code: "backend", retryable: true });
      await cut;
      await eventually("it was withdrawn", 5_000, async () => (await count(watcher, name)).holders === 0);
    },
  },
  {
    name: "a lock that could not be given back in an outage is free soon after it, long before its ttl",
    waits: true,
    needs: ["network"],
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
    name: "a lease is trusted from the sending of the request, not from its answer",
    waits: true,
    needs: ["network"],
    async run(bench) {
      const { locks, proxy } = await bench.proxied({ ttl: TTL_MS });
      await locks.mutex(bench.name()).run(() => undefined);
      const delayMs = TTL_MS / 5;
      proxy.delay({ toClientMs: delayMs });
      const lease = await locks.mutex(bench.name()).acquire();
      assert(lease.remainingMs() <= TTL_MS - delayMs);
      proxy.heal();
    },
  },
  {
    name: "an answer that took longer than the ttl is never a lease",
    waits: true,
    needs: ["network"],
    async run(bench) {
      const { locks, proxy } = await bench.proxied({ ttl: TTL_MS });
      await locks.mutex(bench.name()).run(() => undefined);
      proxy.delay({ toClientMs: TTL_MS * 1.2 });
      await assert.rejects(locks.mutex(bench.name()).tryAcquire(), { code: "backend" });
      await assert.rejects(locks.mutex(bench.name()).acquire({ wait: TTL_MS * 3 }), { code: "backend" });
      proxy.heal();
    },
  },
  {
    name: "a holder that is cut off is told before anybody else is let in",
    waits: true,
    needs: ["network"],
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
      assert.equal(lease.signal.reason.loss, "expired");
    },
  },
  {
    name: "a holder whose replies do not arrive is told before anybody else is let in",
    waits: true,
    needs: ["network"],
    async run(bench) {
      const name = bench.name();
      const { locks, proxy } = await bench.proxied({ ttl: TTL_MS });
      const lease = await locks.mutex(name).acquire();
      proxy.blackhole("to-client");
      if (!lease.signal.aborted) await once(lease.signal, "abort");
      assert.equal(lease.signal.reason.loss, "expired");
      assert.equal(lease.held, false);
      proxy.heal();
      assert.equal((await bench.connect().mutex(name).acquire()).held, true);
    },
  },
  {
    name: "an outage shorter than the ttl costs nobody a lease, and failed renewals are told as events",
    waits: true,
    needs: ["network"],
    async run(bench) {
      const events: LockEvent[] = [];
      const { locks, proxy } = await bench.proxied({ ttl: LONG_MS, onEvent: (event) => events.push(event) });
      const lease = await locks.mutex(bench.name()).acquire();
      proxy.refuse();
      await eventually("a renewal has failed", LONG_MS / 2, () =>
        events.some(({ type }) => type === "renew-failed"),
      );
      proxy.heal();
      await sleep(LONG_MS * 0.8);
      assert.equal(lease.held, true);
      assert.equal(await lease.release(), true);
    },
  },
  {
    name: "a wait rides through an outage that is shorter than its ttl",
    waits: true,
    needs: ["network"],
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
    waits: true,
    needs: ["network"],
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
    waits: true,
    needs: ["network"],
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
    waits: true,
    needs: ["network"],
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
    waits: true,
    needs: ["network"],
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
      // Somebody asks after 6 s at the latest, and then for one ttl.
      assert(performance.now() - startedAt < 30_000);
      proxy.heal();
    },
  },
  {
    name: "a connection that the server dropped is made anew, and waiters ask again at once",
    waits: true,
    needs: ["network"],
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
  {
    name: "scenario S9: a claim delivered long after its caller left is a place that nobody refreshes, never a lease",
    waits: true,
    needs: ["network"],
    async run(bench) {
      const name = bench.name();
      const watcher = bench.connect();
      const { locks, proxy } = await bench.proxied({ ttl: TTL_MS });
      // Held all the while, so that a session which the two share lives on.
      await locks.mutex(bench.name()).acquire();
      const held = proxy.holdBack((data) => data.includes(name));
      const controller = new AbortController();
      const asked = locks.mutex(name).acquire({ signal: controller.signal });
      await held.caught;
      controller.abort(new Error("left"));
      await assert.rejects(asked, { message: "left" });
      proxy.dropAll();
      await sleep(TTL_MS);
      await deliverLate(bench, held);
      await eventually(
        "it is gone after one ttl",
        TTL_MS + SLACK_MS,
        async () => (await count(watcher, name)).holders === 0,
      );
      await sleep(TTL_MS / 2);
      assert.deepEqual(await count(watcher, name), { holders: 0, waiters: 0 });
    },
  },
  {
    name: "a release delivered after the ttl does not touch the successor",
    waits: true,
    needs: ["network"],
    async run(bench) {
      const name = bench.name();
      const { locks, proxy } = await bench.proxied({ ttl: TTL_MS });
      const lease = await locks.mutex(name).acquire();
      const held = proxy.holdBack((data) => data.includes(name));
      lease.release().catch(() => undefined);
      await held.caught;
      proxy.refuse();
      const successor = await bench.connect().mutex(name).acquire();
      await deliverLate(bench, held);
      await sleep(50);
      assert.equal((await bench.connect().inspect(name)).holders[0]?.token, successor.token);
      assert.equal(await successor.release(), true);
    },
  },
];
