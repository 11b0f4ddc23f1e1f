import assert from "node:assert/strict";
import { type Case, count, SLACK_MS, sleep, TTL_MS } from "./bench.js";

export const exclusion: readonly Case[] = [
  {
    name: "one holder at a time among many tasks of several connections",
    async run(bench) {
      const name = bench.name();
      const connections = [bench.connect(), bench.connect(), bench.connect()];
      let inside = 0;
      let grants = 0;
      const task = async (index: number) => {
        const mutex = connections[index % connections.length]?.mutex(name);
        for (let round = 0; round < 5; round++) {
          await mutex?.run(async () => {
            assert.equal(++inside, 1);
            await sleep(1);
            inside--;
            grants++;
          });
        }
      };
      await Promise.all(Array.from({ length: 12 }, (_, index) => task(index)));
      assert.equal(grants, 60);
    },
  },
  {
    name: "every grant has a greater token than all before it",
    async run(bench) {
      const name = bench.name();
      const connections = [bench.connect(), bench.connect()];
      let last = 0n;
      for (let round = 0; round < 20; round++) {
        await connections[round % 2]?.mutex(name).run((lease) => {
          assert(lease.token > last, `${lease.token} follows ${last}`);
          last = lease.token;
        });
      }
    },
  },
  {
    name: "different names do not exclude each other, however alike they are",
    async run(bench) {
      const locks = bench.connect();
      const base = bench.name();
      const names = [
        base,
        `${base} `,
        `${base}:`,
        `${base}/`,
        base.toUpperCase(),
        `${base}{}`,
        `${base}{a}`,
        `${base}%7B`,
        `${base}é`,
        `${base}e\u0301`,
        `${base}*`,
        `${base}'"`,
      ];
      const leases = await Promise.all(names.map((name) => locks.mutex(name).tryAcquire()));
      assert(leases.every((lease) => lease !== null));
      const parts = [bench.name(), "c"] as const;
      const first = await locks.mutex([`${parts[0]}b`, parts[1]]).tryAcquire();
      const second = await locks.mutex([parts[0], `b:${parts[1]}`]).tryAcquire();
      assert(first !== null && second !== null);
    },
  },
  {
    name: "a string and the parts it consists of are one lock",
    async run(bench) {
      const locks = bench.connect();
      const name = bench.name();
      const lease = await locks.mutex(`${name}:42`).acquire();
      assert.equal(
        await locks
          .scope(...(name.split(":") as [string, ...string[]]))
          .mutex("42")
          .tryAcquire(),
        null,
      );
      await lease.release();
    },
  },
  {
    name: "scenario S2: there is no moment at which a claim has no expiry",
    async run(bench) {
      const name = bench.name();
      const locks = bench.connect({ ttl: TTL_MS });
      const watcher = bench.connect();
      for (let round = 0; round < 10; round++) {
        const lease = await locks.mutex(name).acquire();
        const [holder] = (await watcher.inspect(name)).holders;
        assert(holder !== undefined && holder.remainingMs > 0 && holder.remainingMs <= TTL_MS);
        await lease.release();
      }
    },
  },
  {
    name: "scenario S4: a late release after expiry leaves the successor's lock alone",
    waits: true,
    async run(bench) {
      const watcher = bench.connect();
      // The successor may have waited for the expiry, or have come after it.
      for (const waited of [true, false]) {
        const name = bench.name();
        const first = await bench.connect().mutex(name).acquire({ ttl: 300, renew: false });
        if (!waited) await sleep(400);
        const second = await bench.connect({ ttl: 10_000 }).mutex(name).acquire();
        assert.equal(await first.release(), false);
        await sleep(50);
        assert.equal(second.held, true);
        assert.equal((await watcher.inspect(name)).holders[0]?.token, second.token);
        assert.equal(await watcher.mutex(name).tryAcquire(), null);
        assert.equal(await second.release(), true);
      }
    },
  },
  {
    name: "releasing twice releases once, and says the same both times",
    async run(bench) {
      const name = bench.name();
      const first = await bench.connect().mutex(name).acquire();
      assert.deepEqual(await Promise.all([first.release(), first.release()]), [true, true]);
      const second = await bench.connect().mutex(name).acquire();
      assert.equal(await first.release(), true);
      assert.equal(second.held, true);
    },
  },
  {
    name: "scenario S19: after a failed acquire there is nothing to release, and nothing is released",
    async run(bench) {
      const name = bench.name();
      const holder = await bench.connect().mutex(name).acquire();
      const locks = bench.connect();
      await assert.rejects(locks.mutex(name).acquire({ wait: 50 }), { code: "timeout" });
      await assert.rejects(
        locks.mutex(name).run({ wait: 50 }, () => assert.fail("must not run")),
        { code: "timeout" },
      );
      await using none = await locks.mutex(name).tryAcquire();
      assert.equal(none, null);
      assert.equal(holder.held, true);
      assert.deepEqual(await count(locks, name), { holders: 1, waiters: 0 });
    },
  },
  {
    name: "a lease that goes out of scope is released",
    async run(bench) {
      const mutex = bench.connect().mutex(bench.name());
      {
        await using lease = await mutex.acquire();
        assert.equal(lease.held, true);
      }
      assert.notEqual(await mutex.tryAcquire(), null);
    },
  },
  {
    name: "a free lock is granted even if the wait is shorter than the way to the engine",
    async run(bench) {
      const lease = await bench.connect().mutex(bench.name()).acquire({ wait: 1 });
      assert.equal(lease.held, true);
      assert(lease.remainingMs() > 15_000 * (bench.harness.trustedShare ?? 1) - SLACK_MS * 5);
    },
  },
];
