import type { Backend } from "./backend.js";
import type { ClaimState } from "./claim-state.js";
import { nowMs } from "./clock.js";
import { asLockError } from "./errors.js";
import { startTimer, stopTimer } from "./timer.js";

const SHORTEST_GAP_MS = 200;
const LONGEST_GAP_MS = 5_000;

/**
 * Places that could not be given back when their time had come, because the engine did not answer. Their ttl ends
 * them; but that may be long, and the engine may soon be back: so it is asked again and again until then. The
 * request is idempotent, and no id is used twice.
 */
export class ReleaseRetry {
  readonly #backend: Backend;
  /** `close` has to wait until nothing is under way any more. */
  readonly #underWay: (request: Promise<unknown>) => void;
  readonly #timers = new Set<NodeJS.Timeout>();
  #stopped = false;

  constructor(backend: Backend, underWay: (request: Promise<unknown>) => void) {
    this.#backend = backend;
    this.#underWay = underWay;
  }

  add(claim: ClaimState): void {
    this.#later(claim, nowMs() + claim.ttlMs, SHORTEST_GAP_MS);
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#timers) stopTimer(timer);
    this.#timers.clear();
  }

  /** Not ref'd: a process that has nothing else to do may go, and its ttl does the rest. */
  #later(claim: ClaimState, untilMs: number, gapMs: number): void {
    if (this.#stopped || nowMs() > untilMs) return;
    // Uneven, so that many do not come back at once.
    const timer = startTimer(
      () => {
        this.#timers.delete(timer);
        this.#underWay(this.#again(claim, untilMs, gapMs));
      },
      gapMs * (0.75 + Math.random() / 2),
    ).unref();
    this.#timers.add(timer);
  }

  async #again(claim: ClaimState, untilMs: number, gapMs: number): Promise<void> {
    try {
      await this.#backend.release(claim, claim.ending);
    } catch (error) {
      if (!asLockError(error, "").retryable) return;
      this.#later(claim, untilMs, Math.min(gapMs * 2, LONGEST_GAP_MS));
    }
  }
}
