import type { ClaimRequest, Traits } from "../../core/backend.js";
import { WHOLE } from "../../core/claim.js";
import { formatMs } from "../../core/duration.js";
import { LockError } from "../../core/errors.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import type { RedlockSettings } from "./options.js";
import { majorityOf } from "./tally.js";

export function traitsOf({ nodes, maxTtlMs }: RedlockSettings): Traits {
  const count = nodes.length;
  const spare = count - majorityOf(count);
  return {
    engine: "redlock",
    reach: "network",
    fencing: true,
    queueing: false,
    notifications: true,
    ttl: "claim",
    expiryGranularityMs: 20,
    caveats: [
      `${spare} of ${count} servers may fail. If more of them lose their memory at the same time, two processes may believe that they hold a lock.`,
      `A server that was started anew or flushed does not vote for ${formatMs(maxTtlMs)}.`,
      "There is no queue between processes: the one that asks at the right moment is next, in no order.",
      "If servers lose their memory, tokens keep growing if their clocks differ by less than that time.",
      ...(count % 2 === 0
        ? [`An even number of servers adds nothing: ${count - 1} would bear the same failures.`]
        : []),
      ...(nodes[0]?.settings.acceptEviction
        ? [
            "Eviction is accepted: a server whose memory is full may forget locks, as if it had lost its memory.",
          ]
        : []),
      ...tlsCaveats(nodes[0]?.settings.address?.tls),
    ],
  };
}

/** What a majority of nodes cannot promise is refused, with the reason. */
export function refuseTheImpossible(request: ClaimRequest, { maxTtlMs }: RedlockSettings): void {
  const { name, capacity, weight, ttlMs, minHoldMs, maxWaiters } = request;
  if (capacity !== WHOLE || (weight !== WHOLE && weight !== 1)) {
    throw unsupported(
      name,
      "semaphores are not offered by a quorum: majorities of its servers, each with room for two holders, would let in three",
    );
  }
  if (maxWaiters !== undefined) throw unsupported(name, "maxWaiters: a quorum keeps no queue to be counted");
  for (const [option, ms] of Object.entries({ ttl: ttlMs, minHold: minHoldMs })) {
    refuseLongerThan(maxTtlMs, option, ms, name);
  }
}

export function refuseLongerThan(maxTtlMs: number, option: string, ms: number, name?: string): void {
  if (ms <= maxTtlMs) return;
  throw unsupported(
    name,
    `${option}: ${formatMs(ms)} is longer than the maxTtl of this quorum, ${formatMs(maxTtlMs)}. Let the lease be renewed, or let every process that uses these servers have a longer one: connect(url, { engine: { maxTtl: ${Math.ceil(ms)} } })`,
  );
}

function unsupported(name: string | undefined, why: string): LockError {
  return new LockError("unsupported", `${why}.`, { name });
}
