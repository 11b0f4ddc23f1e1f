import assert from "node:assert/strict";
import { type Case, eventually, sleep } from "./bench.js";

export const cells: readonly Case[] = [
  {
    name: "what was written is read, with a version that grows",
    needs: ["cells"],
    async run(bench) {
      const name = bench.name();
      const [one, two] = [bench.connect().cell<unknown>(name), bench.connect().cell<unknown>(name)];
      assert.equal(await one.read(), undefined);
      let last = 0n;
      const values = [0, "", null, false, { a: [1, { b: "ü\u0000\n'\"\\😀" }] }, "x".repeat(60_000)];
      for (const value of values) {
        const result = await one.write(value);
        assert(result.written && result.version > last);
        last = result.version;
        assert.deepEqual(await two.read(), { value, version: last });
      }
      const deleted = await two.delete();
      assert(deleted.written && deleted.version > last);
      assert.equal(await one.read(), undefined);
      const again = await one.write("again");
      assert(again.written && again.version > deleted.version);
    },
  },
  {
    name: "a write that expects another version changes nothing, and says what is there",
    needs: ["cells"],
    async run(bench) {
      const name = bench.name();
      const cell = bench.connect().cell<string>(name);
      const first = await cell.write("first", { ifVersion: null });
      assert(first.written);
      const second = await cell.write("second", { ifVersion: first.version });
      assert(second.written);
      const current = { value: "second", version: second.version };
      for (const ifVersion of [null, first.version, second.version + 1n, 0n]) {
        assert.deepEqual(await cell.write("third", { ifVersion }), { written: false, current });
        assert.deepEqual(await cell.delete({ ifVersion }), { written: false, current });
      }
      assert((await cell.delete({ ifVersion: second.version })).written);
      assert.deepEqual(await cell.write("fourth", { ifVersion: second.version }), {
        written: false,
        current: undefined,
      });
      const anew = await cell.write("anew", { ifVersion: null });
      // It has been gone in between: whoever has seen it before that has not seen this one.
      assert.equal((await cell.write("late", { ifVersion: first.version })).written, false);
      assert(anew.written && anew.version > second.version);
    },
  },
  {
    name: "of many who write at once one succeeds, and no update is lost",
    needs: ["cells"],
    async run(bench) {
      const name = bench.name();
      const connections = [bench.connect(), bench.connect(), bench.connect()];
      const results = await Promise.all(
        connections.map((locks, index) => locks.cell<number>(name).write(index, { ifVersion: null })),
      );
      assert.equal(results.filter(({ written }) => written).length, 1);
      await bench.connect().cell<number>(name).write(0);
      const add = async (index: number) => {
        const cell = connections[index % 3]?.cell<number>(name);
        for (let round = 0; round < 5; round++)
          await cell?.update((value) => (value ?? 0) + 1, { attempts: 500 });
      };
      await Promise.all(Array.from({ length: 6 }, (_, index) => add(index)));
      assert.equal((await bench.connect().cell<number>(name).read())?.value, 30);
    },
  },
  {
    name: "an update sees what is there, may leave it, and gives up in the end",
    needs: ["cells"],
    async run(bench) {
      const name = bench.name();
      const cell = bench.connect().cell<string[]>(name);
      const other = bench.connect().cell<string[]>(name);
      assert.equal(await cell.update(() => undefined), undefined);
      assert.deepEqual((await cell.update((value) => [...(value ?? []), "a"]))?.value, ["a"]);
      const kept = await cell.update(async () => undefined);
      assert.deepEqual(kept?.value, ["a"]);
      let calls = 0;
      const disturbed = cell.update(
        async (value) => {
          calls++;
          await other.write(["in between", String(calls)]);
          return value;
        },
        { attempts: 3 },
      );
      await assert.rejects(disturbed, { code: "conflict", retryable: true });
      assert.equal(calls, 3);
      const own = new Error("my own");
      await assert.rejects(
        cell.update(() => {
          throw own;
        }),
        (error) => error === own,
      );
    },
  },
  {
    name: "cells and locks of one name do not disturb each other",
    needs: ["cells"],
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const lease = await locks.mutex(name).acquire();
      assert((await bench.connect().cell<number>(name).write(1)).written);
      assert.equal(lease.held, true);
      assert.equal(await bench.connect().mutex(name).tryAcquire(), null);
      await lease.release();
      assert.equal((await locks.cell<number>(name).read())?.value, 1);
      const next = await locks.mutex(name).acquire();
      assert(next.token > lease.token);
    },
  },
  {
    name: "what cannot be kept is refused before the engine is asked",
    needs: ["cells"],
    async run(bench) {
      const cell = bench.connect().cell<unknown>(bench.name());
      const circle: { self?: unknown } = {};
      circle.self = circle;
      for (const value of [undefined, () => 1, Symbol("x"), 1n, circle, "x".repeat(65_535)]) {
        await assert.rejects(async () => cell.write(value), { code: "invalid-option" });
        if (value !== undefined)
          await assert.rejects(
            cell.update(() => value),
            { code: "invalid-option" },
          );
      }
      for (const options of [{ ifVersion: 1 }, { ifVersion: "1" }, { ifversion: 1n }]) {
        await assert.rejects(async () => cell.write(1, options as never), { code: "invalid-option" });
      }
      for (const options of [{ attempts: 0 }, { attempts: 1.5 }, { signal: {} }, { tries: 5 }]) {
        await assert.rejects(
          cell.update(() => 1, options as never),
          { code: "invalid-option" },
        );
      }
      await assert.rejects(cell.update("x" as never), { code: "invalid-option" });
      assert.equal(await cell.read(), undefined);
    },
  },
];

export const once: readonly Case[] = [
  {
    name: "scenario S20: it runs once, and everybody gets its one result",
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      let ran = 0;
      const options = { keep: "1h" } as const;
      const call = () =>
        bench.connect().once(key, options, async () => {
          ran++;
          await sleep(50);
          return { at: { toJSON: () => "as JSON" }, number: ran };
        });
      const results = await Promise.all([call(), call(), call()]);
      results.push(await call());
      assert.equal(ran, 1);
      assert.equal(results.filter((result) => result.ran).length, 1);
      for (const { value } of results) assert.deepEqual(value, { at: "as JSON", number: 1 });
      // Nothing is a value, too.
      const nothing = bench.name();
      assert.deepEqual(await bench.connect().once(nothing, options, () => undefined), {
        ran: true,
        value: null,
      });
      assert.deepEqual(await bench.connect().once(nothing, options, () => 5), { ran: false, value: null });
    },
  },
  {
    name: "scenario S21: a job that many fire at once, each when it likes, runs on one of them",
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      let ran = 0;
      const fire = async (index: number) => {
        await sleep(index * 20);
        const locks = bench.connect();
        const { value } = await locks.once(key, { keep: "1h" }, () => ++ran);
        await locks.close();
        return value;
      };
      assert.deepEqual(await Promise.all([0, 1, 2, 3, 4].map(fire)), [1, 1, 1, 1, 1]);
    },
  },
  {
    name: "what fails is not stored, unless that is asked for",
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      const locks = bench.connect();
      const own = new Error("my own");
      const fail = () => {
        throw own;
      };
      const isOwn = (error: unknown) => error === own;
      await assert.rejects(locks.once(key, { keep: "1h" }, fail), isOwn);
      assert.deepEqual(await locks.once(key, { keep: "1h" }, () => "then"), { ran: true, value: "then" });
      const kept = bench.name();
      await assert.rejects(locks.once(kept, { keep: "1h", keepErrors: true }, fail), isOwn);
      await assert.rejects(
        bench.connect().once(kept, { keep: "1h" }, () => "then"),
        { code: "once-failed", message: /my own/ },
      );
    },
  },
  {
    name: "the same key for other work is an error, and not somebody else's result",
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      const locks = bench.connect();
      const call = (options: object) => locks.once(key, { keep: "1h", ...options }, () => "ours");
      await call({ fingerprint: "order 42" });
      assert.deepEqual(await call({ fingerprint: "order 42" }), { ran: false, value: "ours" });
      for (const options of [{ fingerprint: "order 43" }, {}, { fingerprint: "order 42", keep: "2h" }]) {
        await assert.rejects(call(options), { code: "once-mismatch" });
      }
      const taken = bench.name();
      await locks.cell<string>(taken).write("a cell");
      await assert.rejects(
        locks.once(taken, { keep: "1h" }, () => 1),
        { code: "once-mismatch" },
      );
    },
  },
  {
    name: "who is late gets the result that is stored, and a crashed runner is replaced",
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      const slow = bench.connect().once(key, { keep: "1h", ttl: 300 }, async () => {
        await bench.connect().forceRelease(key, { reason: "taken for dead" });
        // Somebody else does it meanwhile.
        const other = await bench.connect().once(key, { keep: "1h" }, () => "second");
        assert.deepEqual(other, { ran: true, value: "second" });
        return "first, but late";
      });
      assert.deepEqual(await slow, { ran: false, value: "second" });
    },
  },
  {
    name: "whoever closes while it runs waits for it, and its result is stored",
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      const locks = bench.connect();
      let started = () => {};
      const inside = new Promise<void>((resolve) => {
        started = resolve;
      });
      const running = locks.once(key, { keep: "1h" }, async (lease) => {
        started();
        await sleep(200);
        return lease.held;
      });
      await inside;
      await Promise.all([running, locks.close()]);
      assert.deepEqual(await running, { ran: true, value: true });
      assert.deepEqual(await bench.connect().once(key, { keep: "1h" }, () => 0), { ran: false, value: true });
    },
  },
  {
    name: "the result is forgotten when its time is over",
    waits: true,
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      const locks = bench.connect();
      let ran = 0;
      const call = () => locks.once(key, { keep: "2s" }, () => ++ran);
      assert.equal((await call()).value, 1);
      assert.equal((await call()).value, 1);
      await eventually("it runs again", 8_000, async () => {
        await sleep(100);
        return (await call()).value === 2;
      });
    },
  },
  {
    name: "what cannot be meant is refused before anything runs",
    needs: ["cells"],
    async run(bench) {
      const locks = bench.connect();
      const key = bench.name();
      const never = () => assert.fail("it ran");
      const bad: object[] = [{}, { keep: 0 }, { keep: "soon" }, { keep: Infinity }, { keep: "1h", for: 1 }];
      bad.push({ keep: "1h", fingerprint: 5 }, { keep: "1h", fingerprint: "x".repeat(1_001) });
      bad.push({ keep: "1h", keepErrors: 1 }, { keep: "1h", wait: -1 });
      for (const options of bad) {
        await assert.rejects(locks.once(key, options as never, never), { code: "invalid-option" });
      }
      await assert.rejects(locks.once(key, { keep: "1h" }, 5 as never), { code: "invalid-option" });
      await assert.rejects(
        locks.once(key, { keep: "1h" }, () => 5n),
        { code: "invalid-option" },
      );
    },
  },
];
