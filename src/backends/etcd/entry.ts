import type { Answer, ClaimRequest } from "../../core/backend.js";
import { backendError } from "../../core/errors.js";
import { isEmpty, type ListedClaim, nobodySince } from "./keys.js";
import { capacityOf, grantedOf } from "./line.js";
import type { Compare, TxnResponse } from "./messages.js";
import type { EtcdPlace } from "./place.js";
import type { EtcdRpc } from "./rpc.js";

type Refusal = Extract<Answer, { state: "refused" | "queue-full" | "capacity-mismatch" }>;

/** Under which conditions a claim may be written, and who is known to be ahead of it then. */
export type Permission =
  | { readonly refusal: Refusal }
  | { readonly guard: readonly Compare[]; readonly ahead: readonly ListedClaim[] | undefined };

/**
 * Whoever fits beside nobody and waits however long may just come: its answer tells who is ahead. Whoever only
 * tries, and fits beside nobody, comes if nobody is there. Everybody else looks first, and comes on the
 * condition that nobody has come since.
 */
export async function mayEnter(
  rpc: EtcdRpc,
  place: EtcdPlace,
  { queue, maxWaiters }: ClaimRequest,
): Promise<Permission> {
  const { line, exclusive, weight, capacity } = place;
  if (exclusive && queue && maxWaiters === undefined) return { guard: [], ahead: undefined };
  if (exclusive && !queue) return { guard: [isEmpty(line.range)], ahead: [] };
  const seen = await rpc.range(line.all());
  const claims = line.read(seen);
  // An earlier request of ours, of which we heard nothing, has made it already.
  if (claims.some(({ id }) => id === place.id)) return { guard: [], ahead: undefined };
  const mismatch = mismatchOf(claims, capacity);
  if (mismatch !== undefined) return { refusal: mismatch };
  const granted = grantedOf(claims, capacity);
  const used = claims.slice(0, granted).reduce((sum, claim) => sum + claim.weight, 0);
  const admitted = granted === claims.length && used + weight <= capacity;
  if (!admitted && !queue) return { refusal: { state: "refused" } };
  const waiters = claims.length - granted;
  if (!admitted && maxWaiters !== undefined && waiters >= maxWaiters) {
    return { refusal: { state: "queue-full", waiters } };
  }
  return { guard: [nobodySince(line.range, seen.header.revision)], ahead: claims };
}

export function mismatchOf(claims: readonly ListedClaim[], capacity: number): Refusal | undefined {
  const inForce = capacityOf(claims);
  return inForce === undefined || inForce === capacity
    ? undefined
    : { state: "capacity-mismatch", capacity: inForce };
}

/** Writes the claim, if nothing has changed that must not. */
export async function write(
  rpc: EtcdRpc,
  place: EtcdPlace,
  guard: readonly Compare[],
  value: Buffer,
): Promise<TxnResponse> {
  const { key, session, line } = place;
  // Until it is answered, it may come true at any time; an earlier one that was not answered still may.
  const doubtful = place.doubtful;
  place.doubtful = true;
  const answer = await rpc.txn({
    compare: [session.unchanged(), ...guard],
    success: [
      { request_put: { key, value, lease: session.lease } },
      { request_range: { key, keys_only: true } },
      { request_range: line.newestTwo() },
    ],
    failure: [{ request_range: { key: session.key } }, { request_range: line.first() }],
  });
  place.doubtful = doubtful;
  place.written = value;
  return answer;
}

export function tooBusy(name: string): Error {
  return backendError(`"${name}" changes too fast to enter its queue.`, { name, retryable: true });
}
