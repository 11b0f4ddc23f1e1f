import assert from "node:assert/strict";
import { type Case, count, eventually, queued, SLACK_MS, sleep, TTL_MS } from "./bench.js";

export const all: readonly Case[] = [
  {
    name: "all or nothing: while one is taken, none is held, and the error names it",
    async run(bench) {
      const [a, b, c] = [bench.name(), bench.name(), bench.name()];
      const locks = bench.connect();
      const other = bench.connect();
      const holder = await other.mutex(b).acquire();
      const three = locks.all([locks.mutex(c), locks.mutex(a), locks.mutex(b)]);
      assert.equal(await three.tryAcquire(), null);
      const tried = await three.tryRun(() => "never");
      assert(!tried.ran && tried.blockers[0]?.token === holder.token);
      await assert.rejects(three.acquire({ wait: 100 }), (error: Error & { code: string; lock: string }) => {
        assert.equal(error.code, "timeout");
        assert.equal(error.lock, b);
        return true;
      });
      for (const name of [a, c]) assert.deepEqual(await count(other, name), { holders: 0, waiters: 0 });
      await holder.release();
      const lease = await three.acquire();
      assert.deepEqual(
        lease.parts.map(({ name }) => name),
        [c, a, b],
      );
      assert(lease.parts[2].token > holder.token);
      for (const name of [a, b, c]) assert.equal(await other.mutex(name).tryAcquire(), null);
      assert.equal(await lease.release(), true);
      assert.equal(lease.held, false);
      for (const name of [a, b, c]) assert.deepEqual(await count(other, name), { holders: 0, waiters: 0 });
    },
  },
  {
    name: "callers that take the same ones, in whatever order, never wait in a circle",
    async run(bench) {
      const names = [bench.name(), bench.name(), bench.name()];
      const connections = [bench.connect(), bench.connect()];
      let inside = 0;
      const task = async (index: number) => {
        const locks = connections[index % 2] ?? assert.fail();
        const turned = [...names.slice(index % 3), ...names.slice(0, index % 3)];
        for (let round = 0; round < 4; round++) {
          await locks.all(turned.map((name) => locks.mutex(name))).run(async () => {
            assert.equal(++inside, 1);
            await sleep(1);
            inside--;
          });
        }
      };
      await Promise.all(Array.from({ length: 6 }, (_, index) => task(index)));
    },
  },
  {
    name: "locks of any kinds, and a call inside finds each of them",
    needs: ["queue"],
    async run(bench) {
      const [a, b, c] = [bench.name(), bench.name(), bench.name()];
      const locks = bench.connect();
      const { read, write } = locks.readWrite(b, { reentrant: true });
      const mixed = locks.all([locks.mutex(a, { reentrant: true }), read, locks.semaphore(c, 2)]);
      await mixed.run(async (lease) => {
        const [mutex, reader, permit] = lease.parts;
        assert.equal(typeof mutex.token, "bigint");
        assert.equal(typeof reader.ticket, "bigint");
        assert.equal(typeof permit.ticket, "bigint");
        await locks.mutex(a, { reentrant: true }).run((again) => assert.equal(again.token, mutex.token));
        await read.run((again) => assert.equal(again.ticket, reader.ticket));
        await assert.rejects(write.acquire(), { code: "upgrade" });
        await assert.rejects(locks.mutex(a).acquire(), { code: "self-deadlock" });
        await assert.rejects(locks.semaphore(c, 2).acquire({ weight: 2 }), { code: "self-deadlock" });
        assert.notEqual(await bench.connect().readWrite(b).read.tryAcquire(), null);
      });
      assert.deepEqual(await count(locks, a), { holders: 0, waiters: 0 });
    },
  },
  {
    name: "if one is lost, the whole is, and the others are given back",
    async run(bench) {
      const [a, b] = [bench.name(), bench.name()];
      const locks = bench.connect();
      const operator = bench.connect();
      const run = locks.all([locks.mutex(a), locks.mutex(b)]).run(async (lease) => {
        await operator.forceRelease(b, { reason: "maintenance" });
        await eventually("it is told", SLACK_MS * 5, () => lease.signal.aborted);
        assert.equal(lease.held, false);
        assert.throws(() => lease.assertHeld(), { code: "lost", loss: "forced" });
        assert.equal(lease.parts[0].held, true);
      });
      await assert.rejects(run, { code: "lost", loss: "forced" });
      assert.deepEqual(await count(operator, a), { holders: 0, waiters: 0 });
    },
  },
  {
    name: "a fixed time counts from when the last part is in, and the parts before it are kept until then",
    waits: true,
    async run(bench) {
      const names = [bench.name(), bench.name()].sort();
      const [first, last] = names as [string, string];
      const holder = await bench.connect().mutex(last).acquire();
      const locks = bench.connect();
      const taking = locks
        .all([locks.mutex(first), locks.mutex(last)])
        .acquire({ ttl: TTL_MS, renew: false });
      await queued(bench.connect(), last, 1);
      await sleep(TTL_MS * 1.5);
      assert.equal(await bench.connect().mutex(first).tryAcquire(), null);
      await holder.release();
      const lease = await taking;
      const takenAt = performance.now();
      await sleep(TTL_MS / 2);
      // A busy machine may have slept for longer.
      if (performance.now() - takenAt < TTL_MS * 0.6) assert.equal(lease.held, true);
      await bench.connect().mutex(first).acquire();
      assert.equal(lease.held, false);
      const tookMs = performance.now() - takenAt;
      assert(tookMs <= TTL_MS * 2 + SLACK_MS, `${tookMs} ms`);
    },
  },
  {
    name: "what was taken for nothing is given back at once, whatever its minHold",
    async run(bench) {
      const names = [bench.name(), bench.name()].sort();
      const [first, last] = names as [string, string];
      await bench.connect().mutex(last).acquire();
      const locks = bench.connect();
      const both = locks.all([locks.mutex(first), locks.mutex(last)]);
      assert.equal(await both.tryAcquire({ minHold: "30s" }), null);
      await assert.rejects(both.acquire({ wait: 50, minHold: "30s" }), { code: "timeout" });
      assert.notEqual(await bench.connect().mutex(first).tryAcquire(), null);
    },
  },
  {
    name: "maxHold ends every part also at the engine",
    waits: true,
    async run(bench) {
      const [a, b] = [bench.name(), bench.name()];
      const locks = bench.connect({ ttl: "60s" });
      const lease = await locks.all([locks.mutex(a), locks.mutex(b)]).acquire({ maxHold: TTL_MS });
      const other = bench.connect();
      await other.mutex(a).acquire({ wait: "20s" });
      await other.mutex(b).acquire({ wait: "20s" });
      assert.equal(lease.held, false);
    },
  },
  {
    name: "a caller that is called off while it waits for the last gives back the first",
    async run(bench) {
      const names = [bench.name(), bench.name()].sort();
      const [first, last] = names as [string, string];
      await bench.connect().mutex(last).acquire();
      const locks = bench.connect();
      const controller = new AbortController();
      const taking = locks
        .all([locks.mutex(last), locks.mutex(first)])
        .acquire({ signal: controller.signal, wait: "30s" });
      await queued(bench.connect(), last, 1);
      controller.abort(new Error("changed my mind"));
      await assert.rejects(taking, { message: "changed my mind" });
      const watcher = bench.connect();
      await eventually("the first is free", 2_000, async () => (await count(watcher, first)).holders === 0);
    },
  },
  {
    name: "options that exclude each other are refused before the engine is asked",
    async run(bench) {
      const locks = bench.connect();
      const name = bench.name();
      const mutex = locks.mutex(name);
      const bad: unknown[] = [[], null, "x", [mutex, mutex], [mutex, locks.mutex(name)], [{}], [null]];
      bad.push(new Array(1));
      bad.push(
        [mutex, bench.connect().mutex(bench.name())],
        [locks.all([mutex])],
        new Array(1_001).fill(mutex),
      );
      for (const list of bad) assert.throws(() => locks.all(list as never), { code: "invalid-option" });
      const two = locks.all([mutex, locks.mutex(bench.name())]);
      for (const options of [{ wait: -1 }, { ttl: 0 }, { weight: 2 }, { renew: false, maxHold: "1s" }]) {
        await assert.rejects(two.acquire(options as never), { code: "invalid-option" });
      }
      assert.deepEqual(await count(locks, name), { holders: 0, waiters: 0 });
    },
  },
];
