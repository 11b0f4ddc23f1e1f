import type { Answer, ClaimRequest } from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import { backendError } from "../../core/errors.js";
import { isEmpty, type ListedClaim, nobodySince } from "./keys.js";
import { capacityOf, grantedOf, type Shape } from "./line.js";
import type { Compare, TxnResponse } from "./messages.js";
import type { EtcdPlace } from "./place.js";
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
  place: EtcdPlace,
  request: ClaimRequest,
  racesLost: number,
): Promise<Permission> {
  const { line, exclusive } = place;
  const { queue, maxWaiters } = request;
  if (queue && maxWaiters === undefined) return { guard: [] };
  if (exclusive && !queue) return { guard: [isEmpty(line.range)] };
  const seen = await rpc.range(line.all());
  const claims = line.read(seen);
  // An earlier request of ours, of which we heard nothing, has made it already.
  if (claims.some(({ id }) => id === place.id)) return { guard: [] };
  const refusal = refusalOf(claims, place, request);
  if (refusal !== undefined) return { refusal };
  return { guard: queue || racesLost >= MOST_RACES ? [] : [nobodySince(line.range, seen.header.revision)] };
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
  place: EtcdPlace,
  guard: readonly Compare[],
  value: Buffer,
  whole: boolean,
): Promise<TxnResponse> {
  const { key, session, line } = place;
  // Until it is answered, it may come true at any time; an earlier one that was not answered still may.
  const { doubtful } = place;
  place.doubtful = true;
  const answer = await rpc.txn({
    compare: [session.unchanged(), ...guard],
    success: [
      { request_put: { key, value, lease: session.lease } },
      { request_range: { key, keys_only: true } },
      { request_range: whole ? line.all() : line.newestTwo() },
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
