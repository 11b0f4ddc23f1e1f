import assert from "node:assert/strict";
import { isLockError } from "../../core/errors.js";
import type { HeldBack } from "../faults.js";
import { type Bench, type Case, count, eventually, SLACK_MS, sleep, TTL_MS } from "./bench.js";

const LONG_MS = 4_000;
/** The note of a claim: what is sent to watch a claim has the name of the lock in it as well. */
const CLAIM = "the note of this claim";
/** After so long a held claim is watched, so that the next request with its name is the release. */
const WATCHED_MS = 150;

/** Where a server ends what a client has left behind, the promise is that nothing can be delivered late. */
export async function deliverLate({ harness }: Bench, held: HeldBack): Promise<void> {
  const impossible = "target" in harness.network && harness.network.endsStaleConnections === true;
  if (!impossible) return held.deliver();
  // The end of a session may let a successor in a moment before the server closes the session's connection.
  let closed = false;
  void held.serverClosed.then(() => {
    closed = true;
  });
  await eventually("the server closes the stale connection", 10_000, () => closed);
  await assert.rejects(held.deliver(), /the server has closed the connection/);
}

/** Each has a wire of its own, and waits for what it does to it. */
export function onWires(cases: readonly Case[]): readonly Case[] {
  return cases.map((one) => ({ waits: true, needs: ["network"], ...one }));
}

export const network = onWires([
  {
    name: "scenario S13: when the reply to a claim is lost, the retry finds its own claim, once",
    async run(bench) {
      const name = bench.name();
      const watcher = bench.connect();
      const { locks, proxy } = await bench.proxied({ ttl: LONG_MS });
      await locks.mutex(bench.name()).run(() => undefined);
      const cut = proxy.cutBeforeReply((data) => data.includes(CLAIM));
      const asked = locks.mutex(name).acquire({ note: CLAIM });
      await cut;
      const [claimed] = (await watcher.inspect(name)).holders;
      const lease = await asked;
      // Where no queue is kept, servers agree on a ticket only when they answer; and permits may be looked at first.
      if (locks.guarantees.queueing && claimed !== undefined) assert.equal(lease.token, claimed.token);
      assert.deepEqual(await count(watcher, name), { holders: 1, waiters: 0 });
      assert.equal(await lease.release(), true);
      assert.deepEqual(await count(watcher, name), { holders: 0, waiters: 0 });
    },
  },
  {
    name: "scenario S13: when the reply to a release is lost, the release still counts as ours",
    async run(bench) {
      const name = bench.name();
      const { locks, proxy } = await bench.proxied({ ttl: LONG_MS });
      const lease = await locks.mutex(name).acquire();
      await sleep(WATCHED_MS);
      const cut = proxy.cutBeforeReply((data) => data.includes(name));
      const released = lease.release();
      await cut;
      assert.equal(await released, true);
      assert.notEqual(await bench.connect().mutex(name).tryAcquire(), null);
    },
  },
  {
    name: "a try whose reply is lost, and that cannot be repeated, is an error, and leaves no lock behind",
    async run(bench) {
      const name = bench.name();
      const watcher = bench.connect();
      const { locks, proxy } = await bench.proxied({ ttl: "60s" });
      await locks.mutex(bench.name()).run(() => undefined);
      const cut = proxy.cutBeforeReply((data) => data.includes(CLAIM)).then(() => proxy.refuse());
      await assert.rejects(locks.mutex(name).tryAcquire({ note: CLAIM }), {
        code: "backend",
        retryable: true,
      });
      await cut;
      proxy.heal();
      await eventually("it was withdrawn", 5_000, async () => (await count(watcher, name)).holders === 0);
    },
  },
  {
    name: "a try whose reply is lost, and that can be repeated, claims once, and leaves no lock behind",
    async run(bench) {
      const name = bench.name();
      const watcher = bench.connect();
      const { locks, proxy } = await bench.proxied({ ttl: "60s" });
      await locks.mutex(bench.name()).run(() => undefined);
      const cut = proxy.cutBeforeReply((data) => data.includes(CLAIM));
      // An engine may repeat the request by itself, and need not.
      const lease = await locks
        .mutex(name)
        .tryAcquire({ note: CLAIM })
        .catch((error: unknown) => assert(isLockError(error, "backend") && error.retryable));
      await cut;
      if (lease) {
        const { holders } = await watcher.inspect(name);
        assert.deepEqual(
          holders.map(({ token }) => token),
          [lease.token],
        );
        assert.equal(await lease.release(), true);
      }
      await eventually("it was withdrawn", 5_000, async () => (await count(watcher, name)).holders === 0);
    },
  },
  {
    name: "a lease is trusted from the sending of the request, not from its answer",
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
    name: "minHold: a release in an outage lets no waiter in earlier",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const minHoldMs = 2_500;
      const { locks, proxy } = await bench.proxied({ ttl: "3s" });
      const next = await bench.opened();
      const lease = await locks.mutex(name).acquire({ minHold: minHoldMs });
      // The grant was before this, by less than the time of one request.
      const grantedAt = performance.now();
      const waiting = next.mutex(name).acquire();
      proxy.refuse();
      const released = lease.release().catch(() => undefined);
      await sleep(300);
      proxy.heal();
      await waiting;
      const heldMs = performance.now() - grantedAt;
      assert(heldMs >= minHoldMs - SLACK_MS, `the waiter was let in after ${heldMs} ms`);
      await released;
    },
  },
  {
    name: "minHold: a release in a long outage ends the claim when its time is over",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const minHoldMs = 5_000;
      const { locks, proxy } = await bench.proxied({ ttl: "1500ms" });
      const next = await bench.opened();
      const lease = await locks.mutex(name).acquire({ minHold: minHoldMs });
      const grantedAt = performance.now();
      proxy.refuse();
      await lease.release().catch(() => undefined);
      // Longer than a release is tried again for, which is one ttl.
      await sleep(grantedAt + minHoldMs - 500 - performance.now());
      proxy.heal();
      await next.mutex(name).acquire({ wait: "20s" });
      const heldMs = performance.now() - grantedAt;
      const { expiryGranularityMs } = next.guarantees;
      assert(
        heldMs <= minHoldMs + expiryGranularityMs + SLACK_MS * 2,
        `the next one came after ${heldMs} ms`,
      );
    },
  },
  {
    name: "an answer that took longer than the ttl is never a lease",
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
    name: "scenario S9: a claim delivered long after its caller left is a claim that is not renewed, never a lease",
    async run(bench) {
      const name = bench.name();
      const watcher = bench.connect();
      const { locks, proxy } = await bench.proxied({ ttl: TTL_MS });
      // Held all the while, so that a session which the two share lives on.
      await locks.mutex(bench.name()).acquire();
      const held = proxy.holdBack((data) => data.includes(CLAIM));
      const controller = new AbortController();
      const asked = locks.mutex(name).acquire({ signal: controller.signal, note: CLAIM });
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
    async run(bench) {
      const name = bench.name();
      const { locks, proxy } = await bench.proxied({ ttl: TTL_MS });
      const lease = await locks.mutex(name).acquire();
      await sleep(WATCHED_MS);
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
]);
