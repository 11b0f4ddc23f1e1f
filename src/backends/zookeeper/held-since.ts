import type { ClaimRequest } from "../../core/backend.js";
import type { OwnClaim } from "./own-claim.js";
import { setData } from "./protocol.js";
import type { Timers } from "./timers.js";

const AFTER_MS = 100;

/**
 * Since when a lock is held is written down for people to see, but only if it is held for some time: on a hot
 * lock it would double what a grant costs.
 */
export class HeldSinceWriter {
  readonly #timers: Timers;
  readonly #waiting = new Map<OwnClaim, ClaimRequest>();
  #armed = false;

  constructor(timers: Timers) {
    this.#timers = timers;
  }

  later(ownClaim: OwnClaim, request: ClaimRequest): void {
    // One timer for all, also if those that it was set for have gone.
    if (!this.#armed) this.#timers.later(AFTER_MS, () => this.#show());
    this.#armed = true;
    this.#waiting.set(ownClaim, request);
  }

  forget(ownClaim: OwnClaim): void {
    this.#waiting.delete(ownClaim);
  }

  #show(): void {
    this.#armed = false;
    for (const [ownClaim, request] of this.#waiting) {
      if (ownClaim.left) continue;
      ownClaim.written = ownClaim.value(request);
      // Nobody waits for it, and nothing depends on it.
      ownClaim.session.client.send(setData(ownClaim.path, ownClaim.written)).catch(() => undefined);
    }
    this.#waiting.clear();
  }
}
