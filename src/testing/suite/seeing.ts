import assert from "node:assert/strict";
import { once } from "node:events";
import { hostname } from "node:os";
import { LockTimeoutError } from "../../core/errors.js";
import type { LockEvent } from "../../core/events.js";
import { type Case, queued, SLACK_MS, TTL_MS, withoutNotifications } from "./bench.js";

export const seeing: readonly Case[] = [
  {
    name: "inspect tells the holders and the waiters, in order, from where, with what note and token",
    async run(bench) {
      const name = bench.name();
      const shop = bench.connect({ owner: { service: "shop", instance: "shop-1", version: "1.2.3" } });
      const cron = bench.connect({ owner: { service: "cron" } });
      const lease = await shop.mutex(name).acquire({ note: "order 42" });
      const waiting = cron.mutex(name).acquire({ note: "nightly" });
      await queued(shop, name, 1);
      const { holders, waiters } = await cron.inspect(name);
      const [holder] = holders;
      assert(holder !== undefined && holders.length === 1);
      assert.equal(waiters.length, shop.guarantees.queueing ? 1 : 0);
      assert.equal(holder.token, lease.token);
      assert.equal(holder.note, "order 42");
      assert.deepEqual(holder.owner, {
        service: "shop",
        instance: "shop-1",
        version: "1.2.3",
        host: hostname(),
        pid: process.pid,
      });
      assert(
        holder.remainingMs > 0 && holder.remainingMs <= 15_000 && holder.ageMs >= 0 && holder.ageMs < 10_000,
      );
      for (const waiter of waiters) {
        assert(waiter.token > holder.token);
        assert.equal(waiter.note, "nightly");
        assert.equal(waiter.owner.service, "cron");
      }
      assert(
        !JSON.stringify([holders, waiters], (_, value) =>
          typeof value === "bigint" ? String(value) : value,
        ).includes('"id"'),
      );
      await lease.update({ note: "order 43" });
      assert.equal((await cron.inspect(name)).holders[0]?.note, "order 43");
      await lease.release();
      await waiting;
      assert.equal((await cron.inspect(name)).holders[0]?.owner.service, "cron");
    },
  },
  {
    name: "a timeout names the holder of the lock, since when, from where, and the position in the queue",
    notOfPermits: "all holders of permits are named, and there are more",
    async run(bench) {
      const name = bench.name();
      const shop = bench.connect({ owner: { service: "shop" } });
      const lease = await shop.mutex(name).acquire({ note: "order 42" });
      const first = bench.connect().mutex(name).acquire();
      await queued(shop, name, 1);
      const error = await bench
        .connect()
        .mutex(name)
        .acquire({ wait: 100 })
        .catch((thrown: unknown) => thrown);
      assert(error instanceof LockTimeoutError);
      const { queueing } = shop.guarantees;
      assert.equal(error.position, queueing ? 2 : undefined);
      assert.equal(error.blockers[0]?.token, lease.token);
      const parts = [name, "shop", hostname(), String(process.pid), "order 42"];
      for (const part of queueing ? [...parts, "2 of 2"] : parts) {
        assert(error.message.includes(part), `"${part}" is missing in: ${error.message}`);
      }
      await lease.release();
      await first;
    },
  },
  {
    name: "list finds what is held or waited for, by prefix, to the letter",
    async run(bench) {
      const base = bench.name();
      const locks = bench.connect();
      const names = [`${base}:a%`, `${base}:a_`, `${base}:ab`, `${base}:A`, `${base}:{x}`, `${base}:a*`];
      await Promise.all(names.map((name) => locks.mutex(name).acquire()));
      const list = async (prefix: string) => {
        const found: string[] = [];
        for await (const { name, holders } of locks.list({ prefix })) {
          assert.equal(holders.length, 1);
          found.push(name);
        }
        return found.sort();
      };
      assert.deepEqual(await list(base), [...names].sort());
      assert.deepEqual(await list(`${base}:a`), names.filter((name) => name.startsWith(`${base}:a`)).sort());
      assert.deepEqual(await list(`${base}:a%`), [`${base}:a%`]);
      assert.deepEqual(await list(`${base}:a*`), [`${base}:a*`]);
      assert.deepEqual(await list(`${base}:{`), [`${base}:{x}`]);
      assert.deepEqual(await list(`${base}:zzz`), []);
    },
  },
  {
    name: "an operator takes a lock away; the victim is told at once, by whom and why, and the next one is in",
    notOfPermits: "all permits are taken away, also those of others",
    async run(bench) {
      const name = bench.name();
      const events: LockEvent[] = [];
      const lease = await bench.connect({ ttl: "60s" }).mutex(name).acquire();
      const waiting = bench.connect().mutex(name).acquire();
      const operator = bench.connect({ onEvent: (event) => events.push(event) });
      await queued(operator, name, 1);
      const told = lease.signal.aborted ? undefined : once(lease.signal, "abort");
      const startedAt = performance.now();
      const victims = await operator.forceRelease(name, { reason: "stuck since noon", by: "ada" });
      await told;
      assert(performance.now() - startedAt < 2_000 + SLACK_MS);
      assert.equal(victims[0]?.token, lease.token);
      assert.equal(victims.length, 1);
      const { reason } = lease.signal;
      assert.deepEqual([reason.loss, reason.reason, reason.by], ["forced", "stuck since noon", "ada"]);
      assert.equal(await lease.release(), false);
      const next = await waiting;
      assert(next.token > lease.token);
      assert.equal(events.filter(({ type }) => type === "forced").length, 1);
    },
  },
  {
    name: "a forced holder is told why, also if the next claim in the queue is of its own process",
    needs: ["queue"],
    notOfPermits: "their leases have no tokens",
    async run(bench) {
      const name = bench.name();
      const operator = bench.connect();
      for (const fair of [true, false, false]) {
        const mutex = bench.connect({ ttl: "60s", fair }).mutex(name);
        const lease = await mutex.acquire();
        const next = mutex.acquire();
        await queued(operator, name, 1);
        await operator.forceRelease(name, { token: lease.token, reason: "stuck", by: "ada" });
        const following = await next;
        assert.equal(lease.held, false);
        if (!lease.signal.aborted) await once(lease.signal, "abort");
        const { loss, reason, by } = lease.signal.reason;
        assert.deepEqual([loss, reason, by], ["forced", "stuck", "ada"]);
        assert.equal(await lease.release(), false);
        await following.release();
      }
    },
  },
  {
    name: "forceRelease with a token takes only that holder, and nothing if it is no longer there",
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const first = await locks.mutex(name).acquire();
      await first.release();
      const second = await locks.mutex(name).acquire();
      assert.deepEqual(await locks.forceRelease(name, { token: first.token, reason: "late" }), []);
      assert.equal(second.held, true);
      assert.equal((await locks.forceRelease(name, { token: second.token, reason: "now" })).length, 1);
      assert.notEqual(await bench.connect().mutex(name).tryAcquire(), null);
      await assert.rejects(locks.forceRelease(name, { reason: "" }), { code: "invalid-option" });
    },
  },
  {
    name: "a forced holder that was not notified learns the reason by its next renewal",
    async run(bench) {
      const name = bench.name();
      const operator = await bench.opened();
      const locks = await bench.opened({ ttl: TTL_MS * 2 }, withoutNotifications);
      const lease = await locks.mutex(name).acquire();
      await operator.forceRelease(name, { reason: "must go" });
      if (!lease.signal.aborted) await once(lease.signal, "abort");
      assert.deepEqual([lease.signal.reason.loss, lease.signal.reason.reason], ["forced", "must go"]);
    },
  },
  {
    name: "a holder that is forced out in the moment in which it leaves is told so",
    async run(bench) {
      const name = bench.name();
      const operator = bench.connect();
      const events: LockEvent[] = [];
      const locks = bench.connect(
        { ttl: "60s", onEvent: (event) => events.push(event) },
        withoutNotifications,
      );
      const run = locks
        .mutex(name)
        .run(async () => void (await operator.forceRelease(name, { reason: "must go", by: "ada" })));
      await assert.rejects(run, { code: "lost", loss: "forced", reason: "must go", by: "ada" });
      assert.equal(events.filter(({ type }) => type === "lost").length, 1);
    },
  },
  {
    name: "events tell the story of a lock, and a listener that throws breaks nothing",
    async run(bench) {
      const name = bench.name();
      const types: string[] = [];
      const locks = bench.connect({
        onEvent: (event) => {
          types.push(event.type);
          if (event.type === "acquired") throw new Error("a listener's own bug");
        },
      });
      const warnings: Error[] = [];
      const onWarning = (warning: Error) => warnings.push(warning);
      process.on("warning", onWarning);
      const lease = await locks.mutex(name).acquire();
      await assert.rejects(locks.mutex(name).acquire({ wait: 20 }), { code: "timeout" });
      await lease.release();
      process.off("warning", onWarning);
      assert.deepEqual(types, ["acquired", "timeout", "released"]);
    },
  },
];
