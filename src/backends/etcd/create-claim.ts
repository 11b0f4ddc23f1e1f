import type { Answer, ClaimRequest } from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import { backendError } from "../../core/errors.js";
import { emptySince, isEmpty, type ListedClaim } from "./keys.js";
import type { Compare, TxnResponse } from "./messages.js";
import type { OwnClaim } from "./own-claim.js";
import { capacityOf, grantedOf, type Shape } from "./queue-view.js";
import type { EtcdRpc } from "./rpc.js";

type Refusal = Extract<Answer, { state: "refused" | "queue-full" | "capacity-mismatch" }>;

/** Under which conditions a claim may be written. */
export type Permission = { readonly refusal: Refusal } | { readonly guard: readonly Compare[] };

/** After so many lost races, whoever tries comes all the same, and leaves again if it is not admitted. */
const MOST_RACES = 3;

/**
 * Whoever waits may just come: its answer tells who is ahead. Whoever only tries, and fits beside nobody, comes
 * if nobody is there; if it may fit, it looks first, and comes on the condition that nobody has come since.
 */
export async function mayEnter(
  rpc: EtcdRpc,
  ownClaim: OwnClaim,
  request: ClaimRequest,
  racesLost: number,
): Promise<Permission> {
  const { queue, exclusive } = ownClaim;
  const { queue: mayWait, maxWaiters } = request;
  if (mayWait && maxWaiters === undefined) return { guard: [] };
  if (exclusive && !mayWait) return { guard: [isEmpty(queue.range)] };
  const seen = await rpc.range(queue.all());
  const claims = queue.read(seen);
  // An earlier request of ours, of which we heard nothing, has made it already.
  if (claims.some(({ id }) => id === ownClaim.id)) return { guard: [] };
  const refusal = refusalOf(claims, ownClaim, request);
  if (refusal !== undefined) return { refusal };
  return { guard: mayWait || racesLost >= MOST_RACES ? [] : [emptySince(queue.range, seen.header.revision)] };
}

/** Why a claim with these ahead of it cannot stay, if so. */
export function refusalOf(
  ahead: readonly ListedClaim[],
  { weight, capacity }: Shape,
  { queue, maxWaiters = Infinity }: ClaimRequest,
): Refusal | undefined {
  const inForce = capacityOf(ahead) ?? capacity;
  if (inForce !== capacity) return { state: "capacity-mismatch", capacity: inForce };
  if (worthWatching(ahead, weight, capacity).length === 0) return undefined;
  if (!queue) return { state: "refused" };
  const waiters = ahead.length - grantedOf(ahead, capacity);
  return waiters < maxWaiters ? undefined : { state: "queue-full", waiters };
}

/** Writes the claim, if nothing has changed that must not. */
export async function write(
  rpc: EtcdRpc,
  ownClaim: OwnClaim,
  guard: readonly Compare[],
  value: Buffer,
  whole: boolean,
): Promise<TxnResponse> {
  const { key, session, queue } = ownClaim;
  // Until it is answered, it may come true at any time; an earlier one that was not answered still may.
  const { doubtful } = ownClaim;
  ownClaim.doubtful = true;
  const answer = await rpc.txn({
    compare: [session.unchanged(), ...guard],
    success: [
      { request_put: { key, value, lease: session.lease } },
      { request_range: { key, keys_only: true } },
      { request_range: whole ? queue.all() : queue.newestTwo() },
    ],
    failure: [{ request_range: { key: session.key } }, { request_range: queue.first() }],
  });
  ownClaim.doubtful = doubtful;
  ownClaim.written = value;
  return answer;
}

export function tooBusy(name: string): Error {
  return backendError(`"${name}" changes too fast to enter its queue.`, { name, retryable: true });
}
