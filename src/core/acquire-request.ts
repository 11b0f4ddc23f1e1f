import type { Answer, ClaimRequest, Gone } from "./backend.js";
import type { Owner } from "./claim.js";
import { formatMs } from "./duration.js";
import { backendError, LockError } from "./errors.js";
import type { LockKind } from "./events.js";

/** How many there are; or will be in a moment, if another caller is just changing that. */
export interface Permits {
  readonly capacity: number;
  readonly changing: boolean;
}

/** What is asked for, validated and in milliseconds. */
export interface AcquireRequest {
  readonly name: string;
  /** Shown in events. */
  readonly kind: LockKind;
  readonly weight: number;
  readonly capacity: number;
  /** Takes over the capacity that is in force, and finds it out by this before the first claim. */
  readonly adopts?: (() => Promise<Permits>) | undefined;
  readonly ttlMs: number;
  readonly fixed: boolean;
  readonly minHoldMs: number;
  readonly maxHoldMs: number;
  /** After so long an event tells that it is still held. */
  readonly longHoldMs: number;
  /** 0 asks once and leaves no trace in the queue. */
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
  readonly note: string;
  /** It changes the number of permits to this one. */
  readonly resize?: number | undefined;
  readonly maxWaiters: number | undefined;
  /** What its call chain holds already. */
  readonly holds?: Owner["holds"];
  /** Told whenever the engine has answered; without an answer, when it has failed to. */
  readonly onAnswer?: ((answer?: Answer) => void) | undefined;
  /** Told when its position in the queue is lost. It enters the queue again, unless this throws. */
  readonly onPositionLost?: ((gone: Gone, ticket: bigint) => void) | undefined;
}

/** The request that asks for a claim, refreshes it, or changes its note. */
export function claimRequest(
  process: Owner,
  request: AcquireRequest,
  claim: { readonly id: string; readonly ticket: bigint | undefined },
  note = request.note,
): ClaimRequest {
  const { name, weight, capacity, ttlMs, fixed, minHoldMs, waitMs, maxWaiters, resize } = request;
  const { id, ticket } = claim;
  const owner = request.holds === undefined ? process : { ...process, holds: request.holds };
  return {
    name,
    id,
    ticket,
    weight,
    capacity,
    ttlMs,
    fixed,
    minHoldMs,
    queue: waitMs > 0,
    maxWaiters,
    owner,
    note,
    resize,
  };
}

// Why a wait ends without a lease, other than by its own time.

/** The engine has kept nothing, because too many wait already. */
export function queueFull({ name, maxWaiters }: AcquireRequest, waiters: number): LockError {
  return new LockError(
    "queue-full",
    `"${name}" already has ${waiters} waiting, and maxWaiters is ${maxWaiters}. Try later, or shed the load.`,
    { name, retryable: true },
  );
}

/** The engine could not be asked for longer than was bearable. */
export function outage(name: string, outageMs: number, cause: LockError): LockError {
  return backendError(`no answer about "${name}" for ${formatMs(outageMs)}: ${cause.message}`, {
    name,
    retryable: true,
    cause: cause.cause ?? cause,
  });
}

/** The grant came when nothing of it was left. */
export function tooSlow({ name, ttlMs }: AcquireRequest): LockError {
  return backendError(
    `"${name}" was granted, but the answer took longer than its ttl of ${formatMs(ttlMs)}. Raise the ttl, or look at the network.`,
    { name, retryable: true },
  );
}
