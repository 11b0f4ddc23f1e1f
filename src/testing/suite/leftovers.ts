import assert from "node:assert/strict";
import type { Backend } from "../../core/backend.js";
import { TOKEN_STEP } from "../../core/claim.js";
import {
  type Bench,
  type Case,
  claimOf,
  count,
  eventually,
  passing,
  queued,
  SLACK_MS,
  sleep,
  TTL_MS,
} from "./bench.js";

/** Of each way in which a claim ends. */
const NAMES = 20;
/** An engine may clean up once a second, in the course of other work. */
const CLEANED_MS = 2_000;

/** More than any engine handles in one batch. */
const CROWD = 3_000;

/** An engine that knows which claims are watched. */
function watching(watched: Set<string>): (backend: Backend) => Backend {
  return (backend) => ({
    ...passing(backend),
    watch(claim, notify) {
      watched.add(claim.id);
      const unwatch = backend.watch(claim, notify);
      return () => {
        watched.delete(claim.id);
        unwatch();
      };
    },
  });
}

/** Closes the connection in the middle of a case, and also if the case fails before. */
async function withConnection(backend: Backend, work: (backend: Backend) => Promise<void>): Promise<void> {
  try {
    await work(backend);
  } finally {
    await backend.close();
  }
}

/** Claims that are released, and others whose process is gone: holders alone, and holders with a waiter. */
async function leaveBehind(backend: Backend, bench: Bench): Promise<void> {
  const { queueing } = backend.traits;
  for (let index = 0; index < NAMES; index++) {
    const released = claimOf(bench.name(), TTL_MS);
    assert.equal((await backend.claim(released)).state, "granted");
    assert.equal(await backend.release(released), true);
    assert.equal((await backend.claim(claimOf(bench.name(), TTL_MS))).state, "granted");
    const contended = claimOf(bench.name(), TTL_MS);
    assert.equal((await backend.claim(contended)).state, "granted");
    if (queueing) assert.equal((await backend.claim(claimOf(contended.name, TTL_MS, true))).state, "waiting");
  }
}

/** Engines clean up in the course of ordinary work: here at one name that stays in use. */
async function workFor(ms: number, backend: Backend, name: string): Promise<void> {
  for (const untilMs = performance.now() + ms; performance.now() < untilMs; await sleep(20)) {
    const request = claimOf(name, TTL_MS);
    assert.equal((await backend.claim(request)).state, "granted");
    await backend.release(request);
  }
}

const numberOfTimers = () => process.getActiveResourcesInfo().filter((type) => type === "Timeout").length;

export const leftovers: readonly Case[] = [
  {
    name: "two ttls after the last request for them, nothing is stored of names that are not used any more",
    waits: true,
    needs: ["leftovers"],
    async run(bench) {
      const place = bench.harness.leftovers;
      assert(place !== undefined && "count" in place);
      const { retentionMs = 0, kept = { number: 0, why: "" } } = place;
      await withConnection(place.open(), (backend) => leaveBehind(backend, bench));
      await withConnection(place.open(), (backend) => {
        const { expiryGranularityMs } = backend.traits;
        return workFor(TTL_MS * 2 + expiryGranularityMs + retentionMs + CLEANED_MS, backend, bench.name());
      });
      await sleep(retentionMs);
      let stored = Number.NaN;
      await eventually(
        () => `${kept.number} stored, but there are ${stored} of ${NAMES * 3} names`,
        SLACK_MS * 2,
        async () => {
          stored = await place.count();
          return stored <= kept.number;
        },
      );
    },
  },
  {
    name: "a crowd: every waiter is served, in the order of the tickets, and nothing is left of it",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const { waiters } = bench.harness.crowd ?? { waiters: CROWD };
      const watched = new Set<string>();
      const timersBefore = numberOfTimers();
      const connections = [1, 2, 3].map(() =>
        bench.connect({ ttl: "60s", ...bench.strict }, watching(watched)),
      );
      const holder = await bench.connect({ ttl: "60s" }).mutex(name).acquire();
      const served: bigint[] = [];
      const waits = Array.from({ length: waiters }, (_, index) =>
        (connections[index % connections.length] ?? assert.fail())
          .mutex(name)
          .run({ wait: "60s" }, (lease) => void served.push(lease.token)),
      );
      // If the case fails before they are awaited, they fail with it, and that is no news.
      for (const wait of waits) wait.catch(() => undefined);
      const watcher = bench.connect();
      await queued(watcher, name, waiters);
      const inOrder: bigint[] = [];
      for await (const { claims } of bench.backend().list({ name }))
        for (const { ticket } of claims) inOrder.push(ticket * TOKEN_STEP);
      assert.equal(inOrder.shift(), holder.token);
      await holder.release();
      await Promise.all(waits);
      assert.equal(served.length, waiters);
      assert(
        served.every((token, index) => token === inOrder[index]),
        "served in another order",
      );
      assert.deepEqual(await count(watcher, name), { holders: 0, waiters: 0 });
      assert.equal(watched.size, 0, "claims that are watched after their end");
      const timers = numberOfTimers() - timersBefore;
      assert(timers < 20, `${timers} more timers after ${waiters} waits`);
    },
  },
];
