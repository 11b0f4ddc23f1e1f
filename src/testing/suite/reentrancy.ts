import assert from "node:assert/strict";
import { type Case, count, queued, sleep } from "./bench.js";

const cases: readonly Case[] = [
  {
    name: "scenario S6: the same call chain enters again; the engine sees one claim, and it goes with the outermost",
    async run(bench) {
      const locks = bench.connect();
      const name = bench.name();
      const mutex = locks.mutex(name, { reentrant: true });
      await mutex.run(async (outer) => {
        await mutex.run(async (inner) => {
          assert.equal(inner.token, outer.token);
          await mutex.run(async () => assert.deepEqual(await count(locks, name), { holders: 1, waiters: 0 }));
        });
        assert.equal(outer.held, true);
        assert.deepEqual(await count(locks, name), { holders: 1, waiters: 0 });
      });
      assert.deepEqual(await count(locks, name), { holders: 0, waiters: 0 });
    },
  },
  {
    name: "a call that enters again keeps what it has taken in between",
    async run(bench) {
      const locks = bench.connect();
      const [a, b, c] = [bench.name(), bench.name(), bench.name()];
      const [outer, between] = [a, b].map((name) => locks.mutex(name, { reentrant: true }));
      assert(outer !== undefined && between !== undefined);
      await outer.run(() =>
        between.run(async (lease) => {
          const again = async () => {
            await between.run({ wait: 1_000 }, ({ token }) => assert.equal(token, lease.token));
            await assert.rejects(locks.mutex(b).acquire({ wait: 1_000 }), { code: "self-deadlock" });
          };
          await outer.run(again);
          await locks.all([outer, locks.mutex(c)]).run(again);
        }),
      );
      for (const name of [a, b, c]) assert.deepEqual(await count(locks, name), { holders: 0, waiters: 0 });
    },
  },
  {
    name: "siblings of one holder take turns, in order",
    async run(bench) {
      const mutex = bench.connect().mutex(bench.name(), { reentrant: true });
      const order: string[] = [];
      const sibling = (label: string) =>
        mutex.run(async () => {
          order.push(`${label} in`);
          await sleep(5);
          order.push(`${label} out`);
        });
      await mutex.run(() => Promise.all([sibling("a"), sibling("b"), sibling("c")]));
      assert.deepEqual(order, ["a in", "a out", "b in", "b out", "c in", "c out"]);
    },
  },
  {
    name: "a sibling may give up, be cancelled, or only try, and disturbs no other",
    async run(bench) {
      const mutex = bench.connect().mutex(bench.name(), { reentrant: true });
      await mutex.run(async () => {
        const long = mutex.run(() => sleep(150));
        await assert.rejects(mutex.acquire({ wait: 20 }), { code: "timeout" });
        assert.equal(await mutex.tryAcquire(), null);
        const reason = new Error("cancelled");
        await assert.rejects(
          mutex.acquire({ signal: AbortSignal.abort(reason) }),
          (error) => error === reason,
        );
        await long;
        assert.notEqual(await mutex.tryAcquire(), null);
      });
    },
  },
  {
    name: "without the option, waiting for oneself is an error at once",
    async run(bench) {
      const mutex = bench.connect().mutex(bench.name());
      await mutex.run(async () => {
        await assert.rejects(mutex.acquire({ wait: Infinity }), { code: "self-deadlock" });
        await assert.rejects(
          mutex.run(() => undefined),
          { code: "self-deadlock" },
        );
        assert.equal(await mutex.tryAcquire(), null);
      });
    },
  },
  {
    name: "work that outlives its lease is a stranger, and waits in the queue as others do",
    async run(bench) {
      const locks = bench.connect();
      const name = bench.name();
      const mutex = locks.mutex(name, { reentrant: true });
      let detached: Promise<string> | undefined;
      let letGo: () => void = () => {};
      await mutex.run(() => {
        detached = new Promise<void>((resolve) => {
          letGo = resolve;
        }).then(() => mutex.run(() => "in"));
      });
      const other = await bench.connect().mutex(name).acquire();
      letGo();
      await queued(locks, name, 1);
      await other.release();
      assert.equal(await detached, "in");
    },
  },
  {
    name: "the claim is given back when the last one that entered leaves, also if that is not the outermost",
    async run(bench) {
      const locks = bench.connect();
      const name = bench.name();
      const mutex = locks.mutex(name, { reentrant: true });
      let inner: Promise<void> | undefined;
      await mutex.run(() => {
        inner = mutex.run(() => sleep(100));
      });
      assert.deepEqual(await count(locks, name), { holders: 1, waiters: 0 });
      await inner;
      assert.deepEqual(await count(locks, name), { holders: 0, waiters: 0 });
    },
  },
  {
    name: "within passes ownership on, and within: null stands outside",
    async run(bench) {
      const locks = bench.connect();
      const name = bench.name();
      const mutex = locks.mutex(name);
      const lease = await mutex.acquire();
      const inner = await mutex.acquire({ within: lease });
      assert.equal(inner.token, lease.token);
      await inner.release();
      assert.equal(lease.held, true);
      await mutex.run({ within: lease }, async () => {
        await assert.rejects(mutex.acquire({ within: null, wait: 50 }), { code: "timeout" });
        await assert.rejects(mutex.acquire(), { code: "self-deadlock" });
      });
      await lease.release();
      await assert.rejects(mutex.acquire({ within: lease }), { code: "invalid-option" });
    },
  },
  {
    name: "another chain of the same process does not get in by the lease of the first",
    async run(bench) {
      const mutex = bench.connect().mutex(bench.name(), { reentrant: true });
      let inside = 0;
      const chain = () =>
        mutex.run(async () => {
          assert.equal(++inside, 1);
          await mutex.run(() => sleep(5));
          inside--;
        });
      await Promise.all([chain(), chain(), chain()]);
    },
  },
];

export const reentrancy: readonly Case[] = cases.map((one) => ({
  ...one,
  notOfPermits: "a holder of permits that asks for more gets more of them: nothing is entered again",
}));
