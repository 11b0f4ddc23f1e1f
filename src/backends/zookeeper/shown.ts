import type { ClaimRequest } from "../../core/backend.js";
import type { ZooKeeperPlace } from "./place.js";
import { setData } from "./protocol.js";
import type { Timers } from "./timers.js";

const AFTER_MS = 100;

/**
 * Since when a lock is held is written down for people to see, but only if it is held for some time: on a hot
 * lock it would double what a grant costs.
 */
export class Shown {
  readonly #timers: Timers;
  readonly #waiting = new Map<ZooKeeperPlace, ClaimRequest>();
  #armed = false;

  constructor(timers: Timers) {
    this.#timers = timers;
  }

  later(place: ZooKeeperPlace, request: ClaimRequest): void {
    // One timer for all, also if those that it was set for have gone.
    if (!this.#armed) this.#timers.later(AFTER_MS, () => this.#show());
    this.#armed = true;
    this.#waiting.set(place, request);
  }

  forget(place: ZooKeeperPlace): void {
    this.#waiting.delete(place);
  }

  #show(): void {
    this.#armed = false;
    for (const [place, request] of this.#waiting) {
      if (place.left) continue;
      place.written = place.value(request);
      // Nobody waits for it, and nothing depends on it.
      place.session.client.send(setData(place.path, place.written)).catch(() => undefined);
    }
    this.#waiting.clear();
  }
}
