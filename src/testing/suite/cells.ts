import assert from "node:assert/strict";
import type { Case } from "./bench.js";

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
      const odd = [0n, -1n, -second.version, 2n ** 64n, 2n ** 64n + second.version];
      for (const ifVersion of [null, first.version, second.version + 1n, ...odd]) {
        assert.deepEqual(await cell.write("third", { ifVersion }), { written: false, current });
        assert.deepEqual(await cell.delete({ ifVersion }), { written: false, current });
      }
      assert((await cell.delete({ ifVersion: second.version })).written);
      for (const ifVersion of [second.version, ...odd]) {
        const fourth = await cell.write("fourth", { ifVersion });
        assert.deepEqual(fourth, { written: false, current: undefined });
      }
      const anew = await cell.write("anew", { ifVersion: null });
      // It has been gone in between: a reader that has seen it before that has not seen this one.
      assert.equal((await cell.write("late", { ifVersion: first.version })).written, false);
      assert(anew.written && anew.version > second.version);
    },
  },
  {
    name: "of many writers at once one succeeds, and no update is lost",
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
    name: "work that may be finished while the connection closes may write, and none after that",
    needs: ["cells"],
    async run(bench) {
      const locks = bench.connect();
      const cell = locks.cell<number>(bench.name());
      let closing: Promise<void> | undefined;
      await locks.mutex(bench.name()).run(async () => {
        closing = locks.close();
        assert((await cell.write(1)).written);
        assert.equal((await cell.update((value) => (value ?? 0) + 1))?.value, 2);
      });
      await closing;
      for (const late of [() => cell.read(), () => cell.write(3), () => cell.update(() => 4)]) {
        await assert.rejects(late, { code: "closed" });
      }
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
      const unclear = [{ ifVersion: 1 }, { ifVersion: "1" }, { ifversion: 1n }, { ifVersion: undefined }];
      for (const options of unclear) {
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
