import assert from "node:assert/strict";
import type { Answer, Backend, ClaimRequest, Renewal } from "../../core/backend.js";
import { isOutage } from "../../core/errors.js";
import { type Bench, type Case, claimOf, eventually, SLACK_MS, sleep, TTL_MS } from "./bench.js";
import { deliverLate, onWires } from "./network.js";

/** Long enough that a claim with it is alive when the case ends. */
const LONG_MS = 10_000;
/** How long a connection that was cut off may take to be made again. */
const BACK_MS = 5_000;

async function grant(backend: Backend, request: ClaimRequest): Promise<bigint> {
  const answer = await backend.claim(request);
  assert(answer.state === "granted", `${answer.state} in place of granted`);
  return answer.ticket;
}

async function wait(backend: Backend, request: ClaimRequest): Promise<bigint> {
  const answer = await backend.claim(request);
  assert(answer.state === "waiting", `${answer.state} in place of waiting`);
  return answer.ticket;
}

async function idsAt(backend: Backend, name: string): Promise<readonly string[]> {
  for await (const { claims } of backend.list({ name })) return claims.map(({ id }) => id);
  return [];
}

/** What the engine says in the end: a connection that was cut off may have to be made again first. */
async function settled<T extends Answer | Renewal>(ask: () => Promise<T>): Promise<T> {
  for (const untilMs = performance.now() + BACK_MS; ; await sleep(50)) {
    try {
      const answer = await ask();
      if (answer.state !== "unknown" || performance.now() > untilMs) return answer;
    } catch (error) {
      if (!isOutage(error) || performance.now() > untilMs) throw error;
    }
  }
}

function renewed(backend: Backend, { name, id }: ClaimRequest, ticket: bigint): Promise<Renewal> {
  return settled(async () => {
    const [renewal] = await backend.renew([{ name, id, ticket, ttlMs: LONG_MS }]);
    return renewal ?? assert.fail("a renewal has no answer");
  });
}

/** A connection whose claims can be outlived. No request of this process touches their names meanwhile. */
class Outlivable {
  private constructor(
    readonly backend: Backend,
    readonly outlive: (request: ClaimRequest) => Promise<void>,
  ) {}

  static async open(bench: Bench): Promise<Outlivable> {
    if (bench.harness.keepsAlive !== true) {
      const backend = bench.backend();
      return new Outlivable(backend, () => sleep(TTL_MS + backend.traits.expiryGranularityMs));
    }
    const { backend, proxy } = await bench.proxiedBackend();
    bench.backend(backend);
    const watcher = bench.backend();
    return new Outlivable(backend, async ({ name, id }) => {
      proxy.blackhole("both");
      // A look keeps no session alive, and ends none.
      const isGone = async () => !(await idsAt(watcher, name)).includes(id);
      await eventually("the session is over", TTL_MS + watcher.traits.expiryGranularityMs + SLACK_MS, isGone);
      proxy.heal();
    });
  }
}

/** Holds the renewal of a claim back until the claim has expired; `meanwhile` comes before it is delivered. */
async function renewLate(bench: Bench, name: string, meanwhile: () => Promise<void>): Promise<void> {
  const { backend, proxy } = await bench.proxiedBackend();
  bench.backend(backend);
  const request = claimOf(name, TTL_MS);
  const ticket = await grant(backend, request);
  // The first renewal of a connection may be more than one request: a script or a statement that is prepared.
  await backend.renew([{ name, id: request.id, ticket, ttlMs: TTL_MS }]);
  // Whatever comes next is the renewal, or is followed by it on the same connection. It need not name the lock.
  const held = proxy.holdBack();
  const renewing = backend.renew([{ name, id: request.id, ticket, ttlMs: LONG_MS }]);
  renewing.catch(() => undefined);
  await held.caught;
  // The client must not send it again on another way.
  proxy.refuse();
  await meanwhile();
  await deliverLate(bench, held);
  await sleep(50);
}

const claims: readonly Case[] = [
  {
    name: "a renewal revives no expired claim, though no request has touched its name since",
    async run(bench) {
      const { backend, outlive } = await Outlivable.open(bench);
      const request = claimOf(bench.name(), TTL_MS);
      const ticket = await grant(backend, request);
      await outlive(request);
      assert.equal((await renewed(backend, request, ticket)).state, "gone");
      const next = claimOf(request.name, LONG_MS);
      const other = bench.backend();
      await grant(other, next);
      assert.deepEqual(await idsAt(other, request.name), [next.id]);
    },
  },
  {
    name: "a renewal revives no expired claim while another claim waits, which is granted",
    needs: ["queue"],
    async run(bench) {
      const { backend, outlive } = await Outlivable.open(bench);
      const other = bench.backend();
      const request = claimOf(bench.name(), TTL_MS);
      const ticket = await grant(backend, request);
      const waiting = claimOf(request.name, LONG_MS, true);
      await wait(other, waiting);
      await outlive(request);
      assert.equal((await renewed(backend, request, ticket)).state, "gone");
      await grant(other, waiting);
      assert.deepEqual(await idsAt(other, request.name), [waiting.id]);
    },
  },
  {
    name: "a renewal revives no expired claim after the next one was granted, and takes nothing from that",
    async run(bench) {
      const { backend, outlive } = await Outlivable.open(bench);
      const other = bench.backend();
      const request = claimOf(bench.name(), TTL_MS);
      const ticket = await grant(backend, request);
      await outlive(request);
      const next = claimOf(request.name, LONG_MS);
      const nextTicket = await grant(other, next);
      assert.equal((await renewed(backend, request, ticket)).state, "gone");
      assert.equal((await renewed(other, next, nextTicket)).state, "held");
      assert.deepEqual(await idsAt(other, request.name), [next.id]);
    },
  },
  {
    name: "a renewal revives no expired claim of a waiter",
    needs: ["queue"],
    async run(bench) {
      const { backend, outlive } = await Outlivable.open(bench);
      const other = bench.backend();
      const holder = claimOf(bench.name(), LONG_MS);
      const holderTicket = await grant(other, holder);
      const request = claimOf(holder.name, TTL_MS, true);
      const ticket = await wait(backend, request);
      await outlive(request);
      assert.equal((await renewed(backend, request, ticket)).state, "gone");
      assert.equal((await renewed(other, holder, holderTicket)).state, "held");
      assert.deepEqual(await idsAt(other, holder.name), [holder.id]);
    },
  },
  {
    name: "an expired claim that asks with its ticket is told that it is gone",
    async run(bench) {
      const { backend, outlive } = await Outlivable.open(bench);
      const request = claimOf(bench.name(), TTL_MS);
      const ticket = await grant(backend, request);
      await outlive(request);
      assert.equal((await settled(() => backend.claim({ ...request, ticket }))).state, "gone");
      assert.deepEqual(await idsAt(bench.backend(), request.name), []);
    },
  },
];

const late = onWires([
  {
    name: "a renewal delivered after the claim has expired revives nothing, though no request came between",
    async run(bench) {
      const name = bench.name();
      const other = bench.backend();
      await renewLate(bench, name, () => sleep(TTL_MS + other.traits.expiryGranularityMs));
      await grant(other, claimOf(name, LONG_MS));
    },
  },
  {
    name: "a renewal delivered after the next holder was let in revives nothing, and the next holder keeps the lock",
    async run(bench) {
      const name = bench.name();
      const other = bench.backend();
      const next = claimOf(name, LONG_MS);
      let ticket = 0n;
      await renewLate(bench, name, async () => {
        await eventually("the next holder is in", BACK_MS, async () => {
          const answer = await other.claim(next);
          if (answer.state === "granted") ticket = answer.ticket;
          return ticket > 0n;
        });
      });
      assert.equal((await renewed(other, next, ticket)).state, "held");
      assert.deepEqual(await idsAt(other, name), [next.id]);
      assert.equal(await other.release(next), true);
      await grant(other, claimOf(name, LONG_MS));
    },
  },
]);

/** An expired claim never comes back. Looked at without locks, which stop trusting a claim before it expires. */
export const expiry: readonly Case[] = [
  ...claims.map((one): Case => ({ waits: true, ...one, needs: ["expiry", ...(one.needs ?? [])] })),
  ...late,
];
