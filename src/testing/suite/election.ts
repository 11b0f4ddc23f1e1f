import assert from "node:assert/strict";
import { once } from "node:events";
import type { LockEvent } from "../../core/events.js";
import type { Lease } from "../../core/lease.js";
import { type Case, eventually, queued, SLACK_MS, sleep, TTL_MS } from "./bench.js";

/** Leads until it is told to stop. */
async function untilTold(lease: Lease): Promise<void> {
  if (!lease.signal.aborted) await once(lease.signal, "abort");
}

export const election: readonly Case[] = [
  {
    name: "one of many candidates leads at a time, and every term has a greater token",
    async run(bench) {
      const name = bench.name();
      const connections = [bench.connect(), bench.connect(), bench.connect()];
      let leading = 0;
      let last = 0n;
      await Promise.all(
        connections.flatMap((locks) =>
          [1, 2].map(() =>
            locks.election(name).lead(async (lease) => {
              assert.equal(++leading, 1);
              assert(lease.token > last);
              last = lease.token;
              await sleep(5);
              leading--;
            }),
          ),
        ),
      );
      assert.equal(await bench.connect().election(name).leader(), undefined);
    },
  },
  {
    name: "what the leader returns or throws ends its campaign, and the seat is free",
    async run(bench) {
      const election = bench.connect().election(bench.name());
      assert.equal(await election.lead(() => "done"), "done");
      const own = new Error("my own");
      await assert.rejects(
        election.lead({ note: "short" }, () => {
          throw own;
        }),
        (error) => error === own,
      );
      assert.equal(await election.leader(), undefined);
      // Also a leader that gives the seat back itself has led, and is done.
      assert.equal(
        await election.lead(async (lease) => {
          await lease.release();
          return "resigned";
        }),
        "resigned",
      );
    },
  },
  {
    name: "a leader that lost its seat is told, and campaigns again only when its work has settled",
    async run(bench) {
      const name = bench.name();
      const election = bench.connect().election(name);
      const operator = bench.connect();
      const terms: bigint[] = [];
      let settled = 0;
      const led = election.lead(async (lease) => {
        terms.push(lease.token);
        assert.equal(settled, terms.length - 1);
        if (terms.length === 3) return "in the end";
        await untilTold(lease);
        await sleep(30);
        settled++;
        // Neither an error nor a value counts once the seat is lost.
        if (terms.length === 1) throw new Error("stopped");
        return "too late";
      });
      for (const round of [1, 2]) {
        await eventually("it leads", 5_000, () => terms.length === round);
        await operator.forceRelease(name, { reason: "next, please" });
      }
      assert.equal(await led, "in the end");
      assert(terms.every((term, index) => index === 0 || term > (terms[index - 1] ?? term)));
      assert.equal(new Set(terms).size, 3);
    },
  },
  {
    name: "a seat that was lost without a word is found at the end of a term, and the campaign begins again",
    async run(bench) {
      const name = bench.name();
      const operator = bench.connect();
      const endings: ((lease: Lease) => unknown)[] = [
        () => "unaware",
        async (lease) => {
          await lease.release();
          return "tidy";
        },
        async (lease) => {
          await lease.release();
          throw new Error("tidy, too");
        },
        () => "in the end",
      ];
      const led = await bench
        .connect()
        .election(name)
        .lead(async (lease) => {
          const [end] = endings.splice(0, 1);
          if (endings.length > 0) await operator.forceRelease(name, { reason: "next, please" });
          return end?.(lease);
        });
      assert.equal(led, "in the end");
    },
  },
  {
    name: "what an observer cannot mean is refused",
    async run(bench) {
      const election = bench.connect().election(bench.name());
      for (const options of [null, { every: 0 }, { every: "40d" }, { signal: 5 }, { often: 1 }]) {
        await assert.rejects(election.observe(options as never).next(), { code: "invalid-option" });
      }
    },
  },
  {
    name: "observers end with their connection, however seldom they look",
    async run(bench) {
      const locks = bench.connect();
      const changes = locks.election(bench.name()).observe({ every: "1h" });
      assert.deepEqual(await changes.next(), { done: false, value: undefined });
      const next = changes.next();
      await locks.close();
      assert.deepEqual(await next, { done: true, value: undefined });
      await assert.rejects(locks.election(bench.name()).observe().next(), { code: "closed" });
    },
  },
  {
    name: "a candidate that calls it off leaves the campaign, and a leader is waited for until it has settled",
    async run(bench) {
      const name = bench.name();
      const first = new AbortController();
      const leading = bench
        .connect()
        .election(name)
        .lead({ signal: first.signal }, async (lease) => {
          await once(first.signal, "abort");
          await sleep(50);
          return lease.held;
        });
      const election = bench.connect().election(name);
      await eventually("a candidate leads", 5_000, async () => (await election.leader()) !== undefined);
      const second = new AbortController();
      const campaign = election.lead({ signal: second.signal }, () => assert.fail("was elected"));
      await queued(bench.connect(), name, 1);
      second.abort(new Error("no longer interested"));
      await assert.rejects(campaign, { message: "no longer interested" });
      first.abort(new Error("enough"));
      assert.equal(await leading, true);
      await assert.rejects(
        election.lead({ signal: AbortSignal.abort(new Error("before")) }, () => undefined),
        {
          message: "before",
        },
      );
    },
  },
  {
    name: "observers see who leads, and every change of it",
    async run(bench) {
      const name = bench.name();
      const seen: (string | undefined)[] = [];
      const controller = new AbortController();
      const watching = (async () => {
        const changes = bench.connect().election(name).observe({ every: 10, signal: controller.signal });
        for await (const leader of changes) seen.push(leader?.note);
      })();
      await eventually("no leader is seen", 5_000, () => seen.length === 1);
      const election = bench.connect().election(name);
      for (const note of ["first", "second"]) {
        await election.lead({ note }, () => eventually("it is seen", 5_000, () => seen.at(-1) === note));
      }
      await eventually("no leader is seen again", 5_000, () => seen.at(-1) === undefined);
      controller.abort();
      await watching;
      assert.deepEqual(
        seen.filter((note) => note !== undefined),
        ["first", "second"],
      );
    },
  },
  {
    name: "a leader that was killed is followed by the next candidate soon after its ttl",
    waits: true,
    needs: ["processes"],
    async run(bench) {
      const name = bench.name();
      const worker = await bench.worker({ ttl: TTL_MS });
      const { token } = await worker.acquire(name);
      const locks = bench.connect();
      const elected = locks.election(name).lead((lease) => lease.token);
      await queued(locks, name, 1);
      await worker.kill();
      const killedAt = performance.now();
      assert((await elected) > BigInt(token));
      const { expiryGranularityMs } = locks.guarantees;
      assert(performance.now() - killedAt <= TTL_MS * 1.1 + expiryGranularityMs + SLACK_MS);
    },
  },
  {
    name: "an outage of the engine costs a leader its seat in the end, but never ends a campaign",
    waits: true,
    needs: ["network"],
    async run(bench) {
      const name = bench.name();
      const events: LockEvent[] = [];
      const { locks, proxy } = await bench.proxied({ ttl: TTL_MS, onEvent: (event) => events.push(event) });
      let terms = 0;
      const led = locks.election(name).lead(async (lease) => {
        if (++terms === 2) return "again";
        proxy.refuse();
        await untilTold(lease);
        return "lost";
      });
      await eventually("a campaign has failed", 30_000, () =>
        events.some(({ type }) => type === "campaign-failed"),
      );
      proxy.heal();
      assert.equal(await led, "again");
    },
  },
];
