import assert from "node:assert/strict";
import { once } from "node:events";
import { type Case, count, queued, RAN_OUT, SLACK_MS, sleep, TTL_MS } from "./bench.js";

export const options: readonly Case[] = [
  {
    name: "minHold: the next holder is not let in earlier, though the holder has long released",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const locks = await bench.opened({ ttl: TTL_MS / 2 });
      const [other, next] = [await bench.opened(), await bench.opened()];
      const startedAt = performance.now();
      assert.deepEqual(await locks.mutex(name).tryRun({ minHold: TTL_MS }, () => "done"), {
        ran: true,
        value: "done",
      });
      for (let round = 0; round < 3; round++) {
        const { ran } = await other.mutex(name).tryRun(() => "again");
        // A busy machine may have taken so long for it that it was allowed.
        if (performance.now() - startedAt < TTL_MS) assert.equal(ran, false);
        await sleep(100);
      }
      await next.mutex(name).acquire();
      const tookMs = performance.now() - startedAt;
      assert(tookMs >= TTL_MS, `${tookMs} ms`);
      assert(tookMs <= TTL_MS + SLACK_MS + 300, `${tookMs} ms`);
    },
  },
  {
    name: "minHold: a waiter is in as soon as it is over, though the ttl is long",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const watcher = await bench.opened();
      const next = await bench.opened({ ttl: "60s" });
      const lease = await bench.connect({ ttl: "60s" }).mutex(name).acquire({ minHold: 500 });
      const waiting = next.mutex(name).acquire();
      await queued(watcher, name, 1);
      await lease.release();
      const releasedAt = performance.now();
      await waiting;
      assert(performance.now() - releasedAt < 500 + SLACK_MS * 2);
    },
  },
  {
    name: "minHold: also a waiter's time counts from its grant",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const holder = await bench.connect().mutex(name).acquire();
      const waiting = bench.connect().mutex(name).acquire({ minHold: 400 });
      await sleep(450);
      // It cannot have been granted before this.
      const releasedAt = performance.now();
      await holder.release();
      const lease = await waiting;
      assert.equal(await lease.release(), true);
      await bench.connect().mutex(name).acquire();
      assert(performance.now() - releasedAt >= 400);
    },
  },
  {
    name: "minHold: a grant that its caller did not receive keeps no other claim out",
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      await locks.mutex(bench.name()).run(() => undefined);
      const controller = new AbortController();
      const asked = locks.mutex(name).tryAcquire({ minHold: "60s", signal: controller.signal });
      controller.abort(new Error("changed my mind"));
      await assert.rejects(asked, { message: "changed my mind" });
      await bench.connect().mutex(name).acquire({ wait: "5s" });
    },
  },
  {
    name: "maxHold: renewed, but no longer than that; the holder is told and the next one is let in",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const ttlMs = TTL_MS * 2;
      const maxHoldMs = ttlMs * 1.5;
      const next = await bench.opened();
      const lease = await bench.connect({ ttl: ttlMs }).mutex(name).acquire({ maxHold: maxHoldMs });
      const startedAt = performance.now();
      const waiting = next.mutex(name).acquire();
      await sleep((ttlMs + maxHoldMs) / 2);
      assert.equal(lease.held, true);
      if (!lease.signal.aborted) await once(lease.signal, "abort");
      const toldAt = performance.now();
      assert(toldAt - startedAt <= maxHoldMs + SLACK_MS);
      assert.match(lease.signal.reason.loss, RAN_OUT);
      await waiting;
      assert(performance.now() - toldAt < ttlMs + SLACK_MS);
    },
  },
  {
    name: "wait: Infinity waits on until it is served",
    waits: true,
    async run(bench) {
      const name = bench.name();
      const holder = await bench.connect().mutex(name).acquire();
      const waiting = bench.connect({ wait: 10 }).mutex(name).acquire({ wait: Infinity });
      await sleep(200);
      await holder.release();
      assert.equal((await waiting).held, true);
    },
  },
  {
    name: "invalid input is refused before the engine is asked",
    async run(bench) {
      const locks = bench.connect();
      const name = bench.name();
      const mutex = locks.mutex(name);
      const bad: object[] = [
        { wait: -1 },
        { wait: Number.NaN },
        { wait: "soon" },
        { wait: "5 s" },
        { wait: 1e15 },
        { ttl: 0 },
        { ttl: -5 },
        { ttl: Infinity },
        { ttl: "1d1h" },
        { ttl: "400d" },
        { ttl: null },
        { renew: "no" },
        { renew: false, maxHold: "1m" },
        { renew: false, ttl: "1s", minHold: "2s" },
        { minHold: "2s", maxHold: "1s" },
        { maxHold: 0 },
        { note: 5 },
        { note: "x".repeat(2_000) },
        { maxWaiters: -1 },
        { maxWaiters: 1.5 },
        { signal: {} },
        { within: {} },
        { timeout: 5_000 },
      ];
      for (const options of bad) {
        await assert.rejects(mutex.acquire(options), { code: "invalid-option" }, JSON.stringify(options));
      }
      await assert.rejects(mutex.run("not a function" as never), { code: "invalid-option" });
      await assert.rejects(mutex.tryAcquire({ wait: 5 } as never), { code: "invalid-option" });
      for (const bad of [
        "",
        "a\u0000b",
        "x".repeat(256),
        "\ud800",
        42,
        null,
        undefined,
        [],
        ["a", ""],
        ["a", 1],
      ]) {
        assert.throws(() => locks.mutex(bad as never), { code: "invalid-name" }, JSON.stringify(bad));
      }
      assert.deepEqual(await count(locks, name), { holders: 0, waiters: 0 });
    },
  },
];
