import type { Answer, ClaimRequest, Gone, ResourceRecord } from "./backend.js";
import { type Owner, WHOLE } from "./claim.js";
import { nowMs } from "./clock.js";
import { formatMs } from "./duration.js";
import { backendError, CapacityMismatchError, LockError } from "./errors.js";
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
  /** Tasks of one process that ask for the same may be served by one claim. */
  readonly shares?: boolean | undefined;
  /** For how long the process keeps the claim when no task needs it; 0: not at all. */
  readonly stickyMs: number;
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
    sticky: owner.sticky,
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

/** A caller that resizes holds everything while it sends the other claims away: a moment. */
const LASTS_MS = 2_000;
const AGAIN_MS = 50;

/** More than any program needs, and less than what is exclusive. */
export const MOST_PERMITS = 1_000_000_000;

export function isPermits(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MOST_PERMITS;
}

function tooHeavy(name: string, weight: number, capacity: number): CapacityMismatchError {
  const message = `"${name}" has ${capacity} permits now, and this claim needs ${weight} at once.`;
  return new CapacityMismatchError(message, { name, permits: capacity });
}

/** One name for two things: permits are not to be had of what is held exclusively, nor the other way round. */
export function notPermits(name: string): CapacityMismatchError {
  const message = `"${name}" is in use as a mutex or a read-write lock, and has no permits. Give the semaphore another name.`;
  return new CapacityMismatchError(message, { name, permits: undefined });
}

function disagreement(name: string, inForce: number, capacity: number): CapacityMismatchError {
  if (inForce === WHOLE) return notPermits(name);
  const message =
    capacity === WHOLE
      ? `"${name}" is in use as a semaphore of ${inForce} permits. Give the mutex or the read-write lock another name.`
      : `"${name}" is in use as a semaphore of ${inForce} permits, and this claim says ${capacity}. Give the same number everywhere, or none to take over the one in force.`;
  return new CapacityMismatchError(message, { name, permits: inForce });
}

/** A claim with the old number, behind one that resizes, would only be sent away, or keep the old number in force. */
export function permitsOf({ capacity, claims: [first] }: ResourceRecord): Permits {
  const next = first?.weight === capacity ? first.resize : undefined;
  return { capacity: next ?? capacity, changing: next !== undefined };
}

/** The capacity with which one claim asks, which changes when others have agreed on another. */
export class AgreedCapacity {
  readonly #request: AcquireRequest;
  #capacity: number | undefined;
  #resizedMs = -Infinity;

  constructor(request: AcquireRequest) {
    this.#request = request;
    this.#capacity = request.adopts === undefined ? request.capacity : undefined;
  }

  /** What the claim asks for now. */
  get request(): AcquireRequest {
    const { capacity } = this.#request;
    return this.#capacity === capacity
      ? this.#request
      : { ...this.#request, capacity: this.#capacity ?? capacity };
  }

  /** Finds it out, unless it is known. */
  get unknown(): Promise<void> | undefined {
    if (this.#capacity !== undefined) return undefined;
    return this.#request.adopts?.().then(({ capacity, changing }) => {
      this.#adopt(capacity);
      if (changing) this.#resizedMs = nowMs();
    });
  }

  /** Its position is lost. If that is because of another capacity, it has to agree, or to leave. */
  positionLost(permits: number | undefined): void {
    if (permits === undefined) return;
    this.#agree(permits);
    this.#resizedMs = nowMs();
  }

  /** Another one is in force: how long to wait before asking again. */
  mismatched(capacity: number): number {
    // That of the claim that resizes, which leaves when all others have been sent away.
    if (nowMs() - this.#resizedMs < LASTS_MS) return AGAIN_MS;
    this.#agree(capacity);
    return 0;
  }

  #agree(capacity: number): void {
    if (capacity === this.#capacity) return;
    const { name, adopts } = this.#request;
    if (adopts === undefined) throw disagreement(name, capacity, this.#request.capacity);
    this.#adopt(capacity);
  }

  #adopt(capacity: number): void {
    const { name, weight } = this.#request;
    if (capacity === WHOLE) throw notPermits(name);
    if (weight > capacity) throw tooHeavy(name, weight, capacity);
    this.#capacity = capacity;
  }
}
