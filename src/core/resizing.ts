import type { Ask } from "./ask.js";
import type { ResourceRecord } from "./backend.js";
import { WHOLE } from "./claim.js";
import { nowMs } from "./clock.js";
import { CapacityMismatchError } from "./errors.js";

/** Whoever resizes holds everything for as long as it sends the others away: a moment. */
const LASTS_MS = 2_000;
const AGAIN_MS = 50;

/** More than anybody needs, and less than what is exclusive. */
export const MOST_PERMITS = 1_000_000_000;

const REASON = /^resized to (\d+) permits$/;

export function isPermits(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MOST_PERMITS;
}

/** What those are told who have to enter again with another capacity. */
export function resizedTo(permits: number): string {
  return `resized to ${permits} permits`;
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

/** How many there are; or will be in a moment, if somebody is just changing that. */
export interface Permits {
  readonly capacity: number;
  readonly changing: boolean;
}

/** Whoever came behind one that resizes with the old number would only be sent away, or keep the old one in force. */
export function permitsOf({ capacity, claims: [first] }: ResourceRecord): Permits {
  const next = first?.weight === capacity ? resizeIn(first.note) : undefined;
  return { capacity: next ?? capacity, changing: next !== undefined };
}

/** The number in what a resizer writes, which nobody else may. */
export function resizeIn(text: string | undefined): number | undefined {
  const [, permits] = REASON.exec(text ?? "") ?? [];
  return isPermits(Number(permits)) ? Number(permits) : undefined;
}

/** The capacity with which one claim asks, which changes when others have agreed on another. */
export class AgreedCapacity {
  readonly #ask: Ask;
  #capacity: number | undefined;
  #resizedMs = -Infinity;

  constructor(ask: Ask) {
    this.#ask = ask;
    this.#capacity = ask.adopts === undefined ? ask.capacity : undefined;
  }

  /** What the claim asks for now. */
  get ask(): Ask {
    const { capacity } = this.#ask;
    return this.#capacity === capacity ? this.#ask : { ...this.#ask, capacity: this.#capacity ?? capacity };
  }

  /** Finds it out, unless it is known. */
  get unknown(): Promise<void> | undefined {
    if (this.#capacity !== undefined) return undefined;
    return this.#ask.adopts?.().then(({ capacity, changing }) => {
      this.#adopt(capacity);
      if (changing) this.#resizedMs = nowMs();
    });
  }

  /** Its place is gone. If that is because of another capacity, it has to agree, or to leave. */
  lostPlace(reason: string | undefined): void {
    const permits = resizeIn(reason);
    if (permits === undefined) return;
    this.#agree(permits);
    this.#resizedMs = nowMs();
  }

  /** Another one is in force: how long to wait before asking again. */
  mismatched(capacity: number): number {
    // That of whoever resizes, who leaves when all others have been sent away.
    if (nowMs() - this.#resizedMs < LASTS_MS) return AGAIN_MS;
    this.#agree(capacity);
    return 0;
  }

  #agree(capacity: number): void {
    if (capacity === this.#capacity) return;
    const { name, adopts } = this.#ask;
    if (adopts === undefined) throw disagreement(name, capacity, this.#ask.capacity);
    this.#adopt(capacity);
  }

  #adopt(capacity: number): void {
    const { name, weight } = this.#ask;
    if (capacity === WHOLE) throw notPermits(name);
    if (weight > capacity) throw tooHeavy(name, weight, capacity);
    this.#capacity = capacity;
  }
}
