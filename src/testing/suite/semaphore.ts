import assert from "node:assert/strict";
import type { Backend } from "../../core/backend.js";
import { type Case, count, eventually, passing, queued, SLACK_MS, sleep, TTL_MS } from "./bench.js";

export const semaphore: readonly Case[] = [
  {
    name: "as many hold it as there are permits, and never more",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const connections = [bench.connect(), bench.connect(), bench.connect()];
      const three = await Promise.all(connections.map((locks) => locks.semaphore(name, 3).acquire()));
      assert.equal(await connections[0]?.semaphore(name, 3).tryAcquire(), null);
      for (const lease of three) assert.equal(await lease.release(), true);
      let inside = 0;
      const task = async (index: number) => {
        for (let round = 0; round < 5; round++) {
          await connections[index % 3]?.semaphore(name, 3).run(async () => {
            assert(++inside <= 3, `${inside} are inside`);
            await sleep(2);
            inside--;
          });
        }
      };
      await Promise.all(Array.from({ length: 9 }, (_, index) => task(index)));
      assert.deepEqual(await count(bench.connect(), name), { holders: 0, waiters: 0 });
    },
  },
  {
    name: "weights are counted, and a heavy claim is not overtaken by light ones",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const semaphore = () => bench.connect().semaphore(name, 5);
      const three = await semaphore().acquire({ weight: 3 });
      const two = await semaphore().acquire({ weight: 2 });
      assert.equal(await semaphore().tryAcquire(), null);
      const heavy = semaphore().acquire({ weight: 4 });
      await queued(locks, name, 1);
      const light = semaphore().acquire();
      await queued(locks, name, 2);
      await two.release();
      // There is room for the light one; but the heavy one came first.
      await sleep(100);
      assert.deepEqual(await count(locks, name), { holders: 1, waiters: 2 });
      await three.release();
      const granted = await Promise.all([heavy, light]);
      assert(granted[0].ticket < granted[1].ticket);
      assert.equal((await locks.inspect(name)).permits, 5);
    },
  },
  {
    name: "one release can let several in, and all of them are told",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const all = await locks.semaphore(name, 4).acquire({ weight: 4 });
      const waiting = [1, 2, 3, 4].map((index) =>
        bench
          .connect({ ttl: "30s" })
          .semaphore(name, 4)
          .acquire({ note: String(index) }),
      );
      await queued(locks, name, 4);
      const releasedAt = performance.now();
      await all.release();
      await Promise.all(waiting);
      assert(performance.now() - releasedAt < SLACK_MS * 2);
      assert.deepEqual(await count(locks, name), { holders: 4, waiters: 0 });
    },
  },
  {
    name: "permits come back from a holder that has crashed",
    waits: true,
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const [locks, dead] = [await bench.opened(), await bench.opened()];
      const kept = await bench.connect({ ttl: TTL_MS }).semaphore(name, 3).acquire();
      await dead.semaphore(name, 3).acquire({ ttl: TTL_MS, renew: false, weight: 2 });
      assert.equal(await locks.semaphore(name, 3).tryAcquire(), null);
      const lease = await locks.semaphore(name, 3).acquire({ weight: 2 });
      assert.equal(lease.held && kept.held, true);
      await eventually("two hold", SLACK_MS, async () => (await count(locks, name)).holders === 2);
    },
  },
  {
    name: "a claim that disagrees on the number of permits is refused, until no claim is there",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const lease = await bench.connect().semaphore(name, 3).acquire();
      const other = bench.connect();
      await assert.rejects(other.semaphore(name, 4).acquire(), { code: "capacity-mismatch" });
      await assert.rejects(other.semaphore(name, 2).tryAcquire(), { code: "capacity-mismatch" });
      await assert.rejects(other.mutex(name).acquire(), { code: "capacity-mismatch" });
      assert.equal(lease.held, true);
      await lease.release();
      assert.equal((await other.semaphore(name, 4).acquire()).held, true);
    },
  },
  {
    name: "without a number the one in force is taken over, also when no claim is there any more",
    needs: ["queue", "cells"],
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const adopting = locks.semaphore(name);
      await assert.rejects(adopting.acquire(), {
        code: "invalid-option",
        message: /its size was never set/,
      });
      const lease = await bench.connect().semaphore(name, 3).acquire({ weight: 2 });
      assert.equal((await adopting.acquire()).held, true);
      assert.equal(await adopting.tryAcquire(), null);
      await assert.rejects(adopting.acquire({ weight: 4 }), { code: "capacity-mismatch" });
      assert.equal((await bench.connect().inspect(name)).permits, 3);
      await lease.release();
      const idle = bench.name();
      const cell = locks.cell<string>([idle, "permits"]);
      await cell.write("another program's");
      await bench.connect().semaphore(idle).resize(2);
      assert.equal((await cell.read())?.value, "another program's");
      const [one, two] = [bench.connect().semaphore(idle), bench.connect().semaphore(idle)];
      assert.notEqual(await one.tryAcquire(), null);
      assert.notEqual(await two.tryAcquire(), null);
      assert.equal(await two.tryAcquire(), null);
    },
  },
  {
    name: "resize waits for the holders, sends the waiters behind it back into the queue, and no permit is taken away",
    needs: ["queue", "cells"],
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const holder = await locks.semaphore(name, 2).acquire();
      const resizing = bench.connect().semaphore(name).resize(4);
      await queued(locks, name, 1);
      const adopting = [1, 2, 3].map(() => bench.connect().semaphore(name).acquire());
      const stubborn = bench.connect().semaphore(name, 2).acquire();
      const refused = assert.rejects(stubborn, { code: "capacity-mismatch" });
      await queued(locks, name, 5);
      assert.equal(holder.held, true);
      assert.deepEqual(await count(locks, name), { holders: 1, waiters: 5 });
      await holder.release();
      await resizing;
      await refused;
      await Promise.all(adopting);
      const { permits, holders } = await locks.inspect(name);
      assert.deepEqual([permits, holders.length], [4, 3]);
    },
  },
  {
    name: "a note or a reason that reads like that of resize changes no number",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const text = "resized to 9 permits";
      await locks.semaphore(name, 2).acquire({ weight: 2, note: text });
      let hasSent = () => {};
      const sent = new Promise<void>((resolve) => {
        hasSent = resolve;
      });
      const tellingWhenSent = (backend: Backend): Backend => ({
        ...passing(backend),
        claim(request) {
          hasSent();
          return backend.claim(request);
        },
      });
      const adopting = bench.connect({}, tellingWhenSent).semaphore(name).acquire();
      await sent;
      // The waiter may be taken away, too: then it enters again, with the number that it had.
      const backend = bench.backend();
      for await (const { claims } of backend.list({ name })) {
        for (const claim of [...claims].reverse()) await backend.release(claim, { reason: text });
      }
      await adopting;
      assert.equal((await locks.inspect(name)).permits, 2);
    },
  },
  {
    name: "a program that has named a number and changes it goes on with the new one",
    needs: ["queue", "cells"],
    async run(bench) {
      const name = bench.name();
      const semaphore = bench.connect().semaphore(name, 2);
      await semaphore.run(() => undefined);
      await semaphore.resize(4);
      const lease = await semaphore.acquire({ weight: 4 });
      assert.equal((await bench.connect().inspect(name)).permits, 4);
      await lease.release();
      await semaphore.resize(1);
      await assert.rejects(semaphore.acquire({ weight: 2 }), { code: "invalid-option" });
    },
  },
  {
    name: "a claim for more than there are after a resize fails",
    needs: ["queue", "cells"],
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const holder = await locks.semaphore(name, 5).acquire({ weight: 5 });
      const resizing = bench.connect().semaphore(name, 5).resize(2);
      await queued(locks, name, 1);
      const heavy = bench.connect().semaphore(name).acquire({ weight: 3 });
      const failed = assert.rejects(heavy, { code: "capacity-mismatch", message: /has 2 permits now/ });
      await queued(locks, name, 2);
      await holder.release();
      await Promise.all([resizing, failed]);
      await assert.rejects(locks.semaphore(name).resize(0), { code: "invalid-option" });
      await bench.connect().semaphore(name).acquire();
      await assert.rejects(locks.semaphore(name).resize(3, { wait: 50 }), { code: "timeout" });
    },
  },
  {
    name: "what is held exclusively has no permits, to be taken over or to be changed",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const semaphore = bench.connect().semaphore(name);
      const refused = { code: "capacity-mismatch", message: /in use as a mutex or a read-write lock/ };
      const { read, write } = locks.readWrite(name);
      const lease = await read.acquire();
      const writing = write.acquire();
      await queued(locks, name, 1);
      await assert.rejects(semaphore.acquire({ weight: 7 }), refused);
      await assert.rejects(semaphore.tryAcquire(), refused);
      await assert.rejects(semaphore.resize(3), refused);
      assert.deepEqual(await count(locks, name), { holders: 1, waiters: 1 });
      await lease.release();
      await (await writing).release();
      const inside = locks.semaphore(name, 3);
      await write.run(async () => {
        await assert.rejects(inside.acquire(), refused);
        await assert.rejects(inside.resize(4), refused);
      });
      await bench.connect().semaphore(name, 3).acquire();
      await assert.rejects(write.acquire(), {
        code: "capacity-mismatch",
        message: /a semaphore of 3 permits/,
      });
    },
  },
  {
    name: "a claim that takes the number over rides through an outage, as every wait does",
    waits: true,
    needs: ["queue", "network"],
    async run(bench) {
      const name = bench.name();
      await bench.connect().semaphore(name, 3).acquire({ weight: 2 });
      const { locks, proxy } = await bench.proxied({ ttl: "30s" });
      await locks.mutex(bench.name()).run(() => undefined);
      proxy.refuse();
      const asking = locks.semaphore(name).acquire();
      asking.catch(() => undefined);
      await assert.rejects(locks.semaphore(name).tryAcquire(), { code: "backend", retryable: true });
      await sleep(500);
      proxy.heal();
      assert.equal((await asking).held, true);
    },
  },
  {
    name: "permits that the own call chain holds are not waited for",
    needs: ["queue"],
    async run(bench) {
      const semaphore = bench.connect().semaphore(bench.name(), 2);
      await semaphore.run(async () => {
        await semaphore.run(async () => {
          await assert.rejects(semaphore.acquire(), { code: "self-deadlock" });
          assert.equal(await semaphore.tryAcquire(), null);
          await assert.rejects(semaphore.acquire({ within: null, wait: 20 }), { code: "timeout" });
          await assert.rejects(semaphore.resize(4), { code: "self-deadlock" });
          await assert.rejects(semaphore.resize(4, { within: null, wait: 20 }), { code: "timeout" });
        });
        await assert.rejects(semaphore.acquire({ weight: 2 }), { code: "self-deadlock" });
      });
    },
  },
  {
    name: "invalid input is refused before the engine is asked",
    needs: ["queue"],
    async run(bench) {
      const locks = bench.connect();
      const name = bench.name();
      for (const permits of [0, -1, 1.5, Number.NaN, Infinity, 2 ** 31, "3", null]) {
        assert.throws(
          () => locks.semaphore(name, permits as never),
          { code: "invalid-option" },
          String(permits),
        );
      }
      const semaphore = locks.semaphore(name, 3);
      for (const weight of [0, -1, 1.5, 4, Number.NaN, "1", null]) {
        await assert.rejects(
          semaphore.acquire({ weight } as never),
          { code: "invalid-option" },
          String(weight),
        );
        await assert.rejects(semaphore.tryAcquire({ weight } as never), { code: "invalid-option" });
      }
      for (const options of [{ reentrant: true }, null, 3]) {
        await assert.rejects(semaphore.acquire(options as never), { code: "invalid-option" });
      }
      for (const options of [{ minHold: "1s" }, null, 3]) {
        await assert.rejects(semaphore.resize(3, options as never), { code: "invalid-option" });
      }
      assert.deepEqual(await count(locks, name), { holders: 0, waiters: 0 });
    },
  },
];
