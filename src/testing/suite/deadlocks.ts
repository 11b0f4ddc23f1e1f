import assert from "node:assert/strict";
import { isLockError, type LockTimeoutError } from "../../core/errors.js";
import { type Bench, type Case, eventually, queued } from "./bench.js";

/** Each holds its own, and then asks for the next one's. */
async function deadlockOf(
  bench: Bench,
  names: readonly string[],
  waitMs: number,
): Promise<LockTimeoutError[]> {
  const errors: LockTimeoutError[] = [];
  const inside = new Set<string>();
  await Promise.all(
    names.map(async (name, index) => {
      const locks = bench.connect({ owner: { service: `service ${index}` } });
      const next = names[(index + 1) % names.length] ?? assert.fail();
      await locks.mutex(name).run(async () => {
        inside.add(name);
        await eventually("all are inside", 10_000, () => inside.size === names.length);
        // One after the other, so that those that are asked first see the whole deadlock when they give up.
        const error = await locks
          .mutex(next)
          .acquire({ wait: waitMs + index * 300 })
          .then((lease) => lease.release())
          .catch((failure: unknown) => failure);
        if (isLockError(error, "timeout")) errors.push(error);
      });
    }),
  );
  return errors;
}

export const deadlocks: readonly Case[] = [
  {
    name: "two that wait for each other are named by the error of the one that gives up",
    needs: ["queue"],
    async run(bench) {
      const names = [bench.name(), bench.name()];
      const [first] = await deadlockOf(bench, names, 400);
      assert(first !== undefined);
      assert.equal(first.deadlock?.length, 2);
      const told = first.deadlock
        .map(({ owner, holds, waitsFor }) => [owner.service, holds, waitsFor])
        .sort();
      assert.deepEqual(told, [
        ["service 0", names[0], names[1]],
        ["service 1", names[1], names[0]],
      ]);
      assert.match(first.message, /deadlock: they wait for each other/);
      for (const name of names) assert(first.message.includes(`holds "${name}"`), first.message);
    },
  },
  {
    name: "a longer deadlock is found, too, also by inspect",
    needs: ["queue"],
    async run(bench) {
      const names = [bench.name(), bench.name(), bench.name()];
      const locks = bench.connect();
      const deadlocked = deadlockOf(bench, names, 2_000);
      for (const name of names) await queued(locks, name, 1);
      const { deadlock } = await locks.inspect(names[1] ?? assert.fail());
      assert.deepEqual(deadlock?.map(({ holds }) => holds).sort(), [...names].sort());
      assert.equal((await deadlocked).length > 0, true);
    },
  },
  {
    name: "two processes that each hold a permit and ask for the other's are in a deadlock, too",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      let inside = 0;
      const [first] = await Promise.all(
        ["one", "other"].map((service, index) => {
          const semaphore = bench.connect({ owner: { service } }).semaphore(name, 2);
          return semaphore.run(async () => {
            inside++;
            await eventually("both are inside", 10_000, () => inside === 2);
            return semaphore.acquire({ wait: 500 + index * 5_000 }).catch((error: unknown) => error);
          });
        }),
      );
      assert(isLockError(first, "timeout"));
      assert.deepEqual(first.deadlock?.map(({ owner }) => owner.service).sort(), ["one", "other"]);
    },
  },
  {
    name: "it is no deadlock while a holder outside of it can let them in",
    needs: ["queue"],
    async run(bench) {
      const [permits, mutex] = [bench.name(), bench.name()];
      const watcher = bench.connect();
      const outside = await watcher.semaphore(permits, 2).acquire();
      const [one, other] = [bench.connect(), bench.connect()];
      let inside = 0;
      const both = () => {
        inside++;
        return eventually("both are inside", 10_000, () => inside === 2);
      };
      const waiting = [
        one.semaphore(permits, 2).run(() => both().then(() => one.mutex(mutex).run(() => undefined))),
        other.mutex(mutex).run(() => both().then(() => other.semaphore(permits, 2).run(() => undefined))),
      ];
      for (const name of [permits, mutex]) await queued(watcher, name, 1);
      for (const name of [permits, mutex]) assert.equal((await watcher.inspect(name)).deadlock, undefined);
      await outside.release();
      await Promise.all(waiting);
    },
  },
  {
    name: "a holder that waits for another lock is in no deadlock by that alone",
    needs: ["queue"],
    async run(bench) {
      const [a, b] = [bench.name(), bench.name()];
      await bench.connect().mutex(b).acquire();
      const locks = bench.connect();
      await locks.mutex(a).run(async () => {
        const waiting = locks.mutex(b).acquire({ wait: 300 });
        await queued(locks, b, 1);
        assert.equal((await locks.inspect(b)).deadlock, undefined);
        await assert.rejects(
          waiting,
          (error) => isLockError(error, "timeout") && error.deadlock === undefined,
        );
      });
    },
  },
];
