import assert from "node:assert/strict";
import { type Case, count, eventually, queued, SLACK_MS, sleep, TTL_MS } from "./bench.js";

export const readWrite: readonly Case[] = [
  {
    name: "many read at once, and no writer is let in meanwhile",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const readers = await Promise.all([1, 2, 3].map(() => bench.connect().readWrite(name).read.acquire()));
      assert.equal(new Set(readers.map(({ ticket }) => ticket)).size, 3);
      assert(readers.every((reader) => !("token" in reader)));
      const { write } = bench.connect().readWrite(name);
      assert.equal(await write.tryAcquire(), null);
      for (const reader of readers) assert.equal(await reader.release(), true);
      assert.notEqual(await write.tryAcquire(), null);
    },
  },
  {
    name: "a writer is alone, and a mutex of the same name is a writer",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const { read, write } = bench.connect().readWrite(name);
      const other = bench.connect();
      const writer = await write.acquire();
      assert.equal(await other.readWrite(name).read.tryAcquire(), null);
      assert.equal(await other.mutex(name).tryAcquire(), null);
      await writer.release();
      const mutex = await other.mutex(name).acquire();
      assert(mutex.token > writer.token);
      assert.equal(await read.tryAcquire(), null);
      await mutex.release();
      assert.notEqual(await read.tryAcquire(), null);
    },
  },
  {
    name: "a writer that waits is overtaken by no reader, and readers behind it come in together",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const first = await locks.readWrite(name).read.acquire();
      const order: string[] = [];
      const writing = bench
        .connect()
        .readWrite(name)
        .write.acquire()
        .then((lease) => {
          order.push("writer");
          return lease;
        });
      await queued(locks, name, 1);
      const reading = [1, 2, 3].map((index) =>
        bench
          .connect()
          .readWrite(name)
          .read.acquire()
          .then((lease) => {
            order.push("reader");
            return { index, lease };
          }),
      );
      await queued(locks, name, 4);
      assert.equal(await bench.connect().readWrite(name).read.tryAcquire(), null);
      await first.release();
      const writer = await writing;
      assert.deepEqual(order, ["writer"]);
      const releasedAt = performance.now();
      await writer.release();
      await Promise.all(reading);
      assert(performance.now() - releasedAt < SLACK_MS * 2);
      assert.deepEqual(await count(locks, name), { holders: 3, waiters: 0 });
    },
  },
  {
    name: "readers and writers of several connections never meet",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const connections = [bench.connect(), bench.connect(), bench.connect()];
      let reading = 0;
      let writing = 0;
      let mostReading = 0;
      const task = async (index: number) => {
        const lock = connections[index % 3]?.readWrite(name);
        for (let round = 0; round < 6; round++) {
          if ((index + round) % 3 === 0) {
            await lock?.write.run(async () => {
              assert.equal(++writing, 1);
              assert.equal(reading, 0);
              await sleep(1);
              writing--;
            });
          } else {
            await lock?.read.run(async () => {
              mostReading = Math.max(mostReading, ++reading);
              assert.equal(writing, 0);
              await sleep(2);
              reading--;
            });
          }
        }
      };
      await Promise.all(Array.from({ length: 9 }, (_, index) => task(index)));
      assert(mostReading > 1, "no reader has ever read beside another one");
    },
  },
  {
    name: "a reader that was killed does not keep a writer out for longer than its ttl",
    waits: true,
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const dead = bench.connect({ ttl: TTL_MS });
      await dead.readWrite(name).read.acquire({ renew: false });
      const live = await bench.connect({ ttl: TTL_MS }).readWrite(name).read.acquire();
      const writing = bench.connect().readWrite(name).write.acquire();
      await queued(bench.connect(), name, 1);
      await sleep(TTL_MS * 1.5);
      assert.deepEqual(await count(bench.connect(), name), { holders: 1, waiters: 1 });
      await live.release();
      assert.equal((await writing).held, true);
    },
  },
  {
    name: "a reader whose lock is taken away is told nothing of a token, which it does not have",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect();
      const { read, write } = locks.readWrite(name);
      const lossOf = async (lease: { readonly signal: AbortSignal }) => {
        const { signal } = lease;
        await bench.connect().forceRelease(name, { reason: "maintenance" });
        await eventually("it is told", 10_000, () => signal.aborted);
        return (signal.reason as Error).message;
      };
      const told = await lossOf(await read.acquire());
      assert.match(told, /\(ticket \d+\)/);
      assert.doesNotMatch(told, /token/);
      assert.match(await lossOf(await write.acquire()), /must be refused by its token/);
    },
  },
  {
    name: "a read inside a write enters, and a write inside a read is refused at once",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const { read, write } = bench.connect().readWrite(name, { reentrant: true });
      await write.run(async (outer) => {
        await read.run(async (inner) => {
          assert.equal(inner.ticket * 1024n, outer.token);
          await write.run((again) => assert.equal(again.token, outer.token));
        });
      });
      await read.run(async () => {
        await assert.rejects(write.acquire(), { code: "upgrade" });
        await assert.rejects(write.tryAcquire(), { code: "upgrade" });
        // Readers that enter again share, as strangers do.
        let inside = 0;
        await Promise.all(
          [1, 2].map(() =>
            read.run(async () => {
              inside++;
              await sleep(20);
              assert.equal(inside, 2);
            }),
          ),
        );
      });
      assert.deepEqual(await count(bench.connect(), name), { holders: 0, waiters: 0 });
      const plain = bench.connect().readWrite(name);
      await plain.read.run(async () => {
        // A writer may wait in between, and then both would wait for ever.
        await assert.rejects(plain.read.acquire(), { code: "self-deadlock" });
        await assert.rejects(plain.write.acquire(), { code: "upgrade" });
      });
    },
  },
];
