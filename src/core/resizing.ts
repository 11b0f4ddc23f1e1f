import type { Ask } from "./ask.js";
import { nowMs } from "./clock.js";
import { CapacityMismatchError } from "./errors.js";

/** Whoever resizes holds everything for as long as it sends the others away: a moment. */
const LASTS_MS = 2_000;
const AGAIN_MS = 50;

const REASON = /^resized to (\d+) permits$/;

/** What those are told who have to enter again with another capacity. */
export function resizedTo(permits: number): string {
  return `resized to ${permits} permits`;
}

export function tooHeavy(name: string, weight: number, capacity: number): CapacityMismatchError {
  const message = `"${name}" has ${capacity} permits now, and this claim needs ${weight} at once.`;
  return new CapacityMismatchError(message, { name, capacity });
}

/** The capacity with which one claim asks, which changes when others have agreed on another. */
export class AgreedCapacity {
  readonly #ask: Ask;
  #capacity: number;
  #resizedMs = -Infinity;

  constructor(ask: Ask) {
    this.#ask = ask;
    this.#capacity = ask.capacity;
  }

  /** What the claim asks for now. */
  get ask(): Ask {
    return this.#capacity === this.#ask.capacity ? this.#ask : { ...this.#ask, capacity: this.#capacity };
  }

  /** Its place is gone. If that is because of another capacity, it has to agree, or to leave. */
  lostPlace(reason: string | undefined): void {
    const [, permits] = REASON.exec(reason ?? "") ?? [];
    if (permits === undefined) return;
    if (!this.#ask.adopts && Number(permits) !== this.#capacity) throw this.#mismatch(Number(permits));
    this.#adopt(Number(permits));
    this.#resizedMs = nowMs();
  }

  /** Another one is in force: how long to wait before asking again. */
  mismatched(capacity: number): number {
    if (!this.#ask.adopts) throw this.#mismatch(capacity);
    // That of whoever resizes, who leaves when all others have been sent away.
    if (nowMs() - this.#resizedMs < LASTS_MS) return AGAIN_MS;
    this.#adopt(capacity);
    return 0;
  }

  #adopt(capacity: number): void {
    if (this.#ask.weight > capacity) throw this.#mismatch(capacity);
    this.#capacity = capacity;
  }

  #mismatch(capacity: number): CapacityMismatchError {
    const { name, weight, adopts } = this.#ask;
    if (adopts) return tooHeavy(name, weight, capacity);
    const message = `"${name}" is in use with a capacity of ${capacity}, and this claim says ${this.#capacity}. Let everybody agree on the number of permits.`;
    return new CapacityMismatchError(message, { name, capacity });
  }
}
