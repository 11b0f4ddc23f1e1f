import assert from "node:assert/strict";
import { once } from "node:events";
import type { Backend } from "../../core/backend.js";
import { LeaseLostError } from "../../core/errors.js";
import type { LockEvent } from "../../core/events.js";
import type { Lease } from "../../core/lease.js";
import { type Case, eventually, passing, queued, RAN_OUT, SLACK_MS, sleep, TTL_MS } from "./bench.js";

/** Ten thousand where the engine is quick enough; for as long as this elsewhere. */
const TAKING_MS = 2_500;

async function lossOf(lease: Lease): Promise<LeaseLostError> {
  if (!lease.signal.aborted) await once(lease.signal, "abort", { signal: AbortSignal.timeout(8_000) });
  assert(lease.signal.reason instanceof LeaseLostError);
  return lease.signal.reason;
}

/** An engine that counts how many claims each renewal carries. */
function countingRenewals(batches: number[]): (backend: Backend) => Backend {
  return (backend) => ({
    ...passing(backend),
    renew(claims) {
      batches.push(claims.length);
      return backend.renew(claims);
    },
  });
}

export const loss: readonly Case[] = [
  {
    name: "scenario S3: work that outlasts the ttl keeps its lock, because it is renewed",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const other = bench.connect();
      await bench
        .connect({ ttl: TTL_MS })
        .mutex(name)
        .run(async (lease) => {
          for (let round = 0; round < 6; round++) {
            await sleep(TTL_MS / 2);
            lease.assertHeld();
            assert.equal(await other.mutex(name).tryAcquire(), null);
          }
        });
    },
  },
  {
    name: "scenario S3: the holder of a fixed lease is told before the next holder is let in",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const lease = await bench.connect().mutex(name).acquire({ ttl: TTL_MS, renew: false });
      let toldAt = Number.NaN;
      lease.signal.addEventListener("abort", () => {
        toldAt = performance.now();
      });
      await bench.connect().mutex(name).acquire();
      const enteredAt = performance.now();
      assert(toldAt <= enteredAt, `told ${toldAt}, next one in ${enteredAt}`);
      assert.match((await lossOf(lease)).loss, RAN_OUT);
      assert.equal(lease.held, false);
      assert.equal(lease.remainingMs(), 0);
      assert.throws(() => lease.assertHeld(), LeaseLostError);
    },
  },
  {
    name: "a fixed lease is never renewed, and its ttl counts from the grant, not from the beginning of the wait",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const holder = await bench.connect().mutex(name).acquire();
      const waiting = bench.connect().mutex(name).acquire({ ttl: TTL_MS, renew: false });
      await queued(bench.connect(), name, 1);
      await sleep(TTL_MS * 1.5);
      await holder.release();
      const lease = await waiting;
      assert(lease.remainingMs() > TTL_MS / 2, `${lease.remainingMs()} ms are left of a fresh lease`);
      const grantedAt = performance.now();
      await lossOf(lease);
      assert(performance.now() - grantedAt <= TTL_MS + SLACK_MS);
    },
  },
  {
    name: "run rejects with the loss, whatever its callback returned, and only after the callback has settled",
    waits: true,
    async run(bench) {
      let settled = false;
      const run = bench
        .connect()
        .mutex(bench.name())
        .run({ ttl: 200, renew: false }, async (lease) => {
          await lossOf(lease);
          await sleep(100);
          settled = true;
          return "fine";
        });
      await assert.rejects(run, { code: "lost", loss: RAN_OUT });
      assert.equal(settled, true);
    },
  },
  {
    name: "the callback's own error wins over a loss, and the lock is free again",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const own = new Error("my own");
      const run = bench
        .connect()
        .mutex(name)
        .run({ ttl: 200, renew: false }, async (lease) => {
          await lossOf(lease);
          throw own;
        });
      await assert.rejects(run, (error) => error === own);
      const thrown = bench
        .connect()
        .mutex(name)
        .run(() => {
          throw own;
        });
      await assert.rejects(thrown, (error) => error === own);
      assert.notEqual(await bench.connect().mutex(name).tryAcquire(), null);
    },
  },
  {
    name: "scenario S5: after a blocked event loop held says no at the first look, and the signal aborts in the first turn",
    async run(bench) {
      const lease = await bench.connect({ ttl: TTL_MS }).mutex(bench.name()).acquire();
      const until = performance.now() + TTL_MS * 1.1;
      const { signal } = lease;
      while (performance.now() < until);
      assert.equal(lease.held, false);
      assert.throws(() => lease.assertHeld(), { code: "lost", loss: "paused" });
      await sleep(0);
      // To the end of that turn: timers that are due in it run in no order that could be relied on.
      await new Promise(setImmediate);
      assert.equal(signal.aborted, true);
      assert.equal(signal.reason.loss, "paused");
      assert.equal(await lease.release(), false);
    },
  },
  {
    name: "a lease that the engine no longer knows is lost at the next renewal",
    needs: ["wipe"],
    async run(bench) {
      const name = bench.name();
      const ttlMs = TTL_MS * 2;
      const lease = await bench.connect({ ttl: ttlMs }).mutex(name).acquire();
      await bench.wipe();
      const wipedAt = performance.now();
      // Where claims live by a session, that is forgotten, too.
      assert.match((await lossOf(lease)).loss, /^(taken|session)$/);
      assert(performance.now() - wipedAt < ttlMs / 3 + SLACK_MS);
    },
  },
  {
    name: "a lease that the engine has forgotten is not made again by its renewal",
    needs: ["wipe"],
    async run(bench) {
      const name = bench.name();
      await bench.connect({ ttl: TTL_MS }).mutex(name).acquire();
      await bench.wipe();
      // Until after its renewal.
      await sleep(TTL_MS * 0.7);
      assert.deepEqual((await bench.connect().inspect(name)).holders, []);
    },
  },
  {
    name: "run rejects if the engine no longer knew the lease when it was given back",
    needs: ["wipe"],
    async run(bench) {
      const run = bench
        .connect({ ttl: "60s" })
        .mutex(bench.name())
        .run(() => bench.wipe());
      await assert.rejects(run, { code: "lost", loss: "taken" });
    },
  },
  {
    name: "tokens keep growing when the engine has forgotten everything, or its traits say that they do not",
    needs: ["wipe"],
    async run(bench) {
      const [released, held] = [bench.name(), bench.name()];
      const before = await bench
        .connect()
        .mutex(released)
        .run((lease) => lease.token);
      // One that is held when it is forgotten: its token is what a resource has seen last.
      const stale = await bench.connect({ ttl: "60s" }).mutex(held).acquire();
      await bench.wipe();
      const after = await bench
        .connect()
        .mutex(released)
        .run((lease) => lease.token);
      const next = await bench.connect().mutex(held).acquire({ wait: "10s" });
      const { fencing, caveats } = bench.connect().guarantees;
      if (bench.harness.tokensRestart) {
        const told = !fencing || caveats.some((caveat) => /\btokens?\b/i.test(caveat));
        assert(told, "tokens restart, but the engine promises fencing, and no caveat speaks of tokens");
        return;
      }
      assert(after > before, `${after} follows ${before}`);
      assert(next.token > stale.token, `${next.token} follows ${stale.token}`);
    },
  },
  {
    name: "a waiter whose place is lost enters again and is served",
    needs: ["queue", "wipe"],
    async run(bench) {
      const name = bench.name();
      const events: LockEvent[] = [];
      await bench.connect({ ttl: "60s" }).mutex(name).acquire();
      const locks = bench.connect({ ttl: TTL_MS, onEvent: (event) => events.push(event) });
      const waiting = locks.mutex(name).acquire();
      await queued(bench.connect(), name, 1);
      await bench.wipe();
      assert.equal((await waiting).held, true);
      assert(events.some((event) => event.type === "queue-position-lost"));
    },
  },
  {
    name: "scenario S17: many held locks are renewed by one timer, in batches",
    async run(bench) {
      const batches: number[] = [];
      const locks = bench.connect({ ttl: "9s" }, countingRenewals(batches));
      const base = bench.name();
      const untilMs = performance.now() + TAKING_MS;
      // Several at once, as a program would; not all at once, or the first would wait for the last.
      const leases: Lease[] = [];
      const timersBefore = process.getActiveResourcesInfo().filter((type) => type === "Timeout").length;
      for (let from = 0; from < 1_000 || (from < 10_000 && performance.now() < untilMs); from += 250) {
        const some = Array.from({ length: 250 }, (_, index) =>
          locks.mutex([base, String(from + index)]).acquire(),
        );
        leases.push(...(await Promise.all(some)));
      }
      const held = leases.length;
      const timersAfter = process.getActiveResourcesInfo().filter((type) => type === "Timeout").length;
      assert(timersAfter - timersBefore < 20, `${timersAfter - timersBefore} more timers for ${held} locks`);
      await eventually(
        "all were renewed",
        10_000,
        () => batches.reduce((sum, size) => sum + size, 0) >= held,
      );
      assert(batches.length <= 200, `${batches.length} renewals for ${held} locks`);
      assert(leases.every((lease) => lease.held));
      for (let from = 0; from < held; from += 250) {
        const released = await Promise.all(leases.slice(from, from + 250).map((lease) => lease.release()));
        assert(released.every((ours) => ours));
      }
    },
  },
];
