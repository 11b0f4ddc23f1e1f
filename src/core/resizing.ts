import type { AcquireRequest, Permits } from "./acquire-request.js";
import type { ResourceRecord } from "./backend.js";
import { WHOLE } from "./claim.js";
import { nowMs } from "./clock.js";
import { CapacityMismatchError } from "./errors.js";

/** A caller that resizes holds everything while it sends the other claims away: a moment. */
const LASTS_MS = 2_000;
const AGAIN_MS = 50;

/** More than any program needs, and less than what is exclusive. */
export const MOST_PERMITS = 1_000_000_000;

export function isPermits(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MOST_PERMITS;
}

export function tooHeavy(name: string, weight: number, capacity: number): CapacityMismatchError {
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
