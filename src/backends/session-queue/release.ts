import { nowMs } from "../../core/clock.js";
import type { OwnClaim, OwnClaims } from "./own-claims.js";
import { Timers } from "./timers.js";

export interface ReleaseDriver<C extends OwnClaim> {
  /** Whether the servers still have the claim. */
  isThere(claim: C): Promise<boolean>;
  /** Removes it, and any request to make it that was not answered. Says whether it was there. */
  remove(claim: C): Promise<boolean>;
  /** The pause after a removal that failed; `undefined`: the driver itself tries again when it is connected. */
  retryMs(claim: C): number | undefined;
}

/** Releases claims: now, when their minimal time is over, or, after an outage, as soon as that can be done. */
export class Releases<C extends OwnClaim> {
  readonly timers = new Timers();
  readonly #claims: OwnClaims<C>;
  readonly #driver: ReleaseDriver<C>;

  constructor(claims: OwnClaims<C>, driver: ReleaseDriver<C>) {
    this.#claims = claims;
    this.#driver = driver;
  }

  /** Says whether it was still there. A claim under which no work was done need not stay for its minimal time. */
  async release(claim: C, unused = false): Promise<boolean> {
    try {
      const restMs = claim.heldUntilMs() - nowMs();
      return await (restMs > 0 && !unused ? this.#leaveLater(claim, restMs) : this.remove(claim));
    } catch (error) {
      this.#tryAgain(claim, unused);
      throw error;
    }
  }

  async remove(claim: C): Promise<boolean> {
    claim.unwanted = true;
    const found = await this.#removeOnce(claim);
    this.#claims.forget(claim);
    return found;
  }

  /**
   * One removal of a claim at a time, and none after one that has succeeded: it could delete what a later request of the
   * same id has made in its place.
   */
  #removeOnce(claim: C): Promise<boolean> {
    claim.removal ??= this.#driver.remove(claim).catch((error: unknown) => {
      claim.removal = undefined;
      throw error;
    });
    return claim.removal;
  }

  /** For a claim that was given up, while a request to make it may be under way, or it may be there unseen. */
  removeInBackground(claim: C): void {
    this.#removeOnce(claim).catch(() => this.#tryAgain(claim, true));
  }

  /** If this process ends meanwhile, the servers keep it; while the process runs, it is removed to the moment. */
  async #leaveLater(claim: C, restMs: number): Promise<boolean> {
    if (!(await this.#driver.isThere(claim))) {
      this.#claims.forget(claim);
      return false;
    }
    claim.left = true;
    this.timers.later(restMs, () => void this.remove(claim).catch(() => this.#tryAgain(claim, true)));
    return true;
  }

  /**
   * A claim that could not be removed would last as long as its session, which other claims may keep: tried until it
   * is, but not before its minimal time is over. Where the driver tries again by itself, it does so for claims that
   * are unwanted, and within its minimal time a claim is not.
   */
  #tryAgain(claim: C, unused: boolean): void {
    if (claim.session.gone) {
      this.#claims.forget(claim);
      return;
    }
    const pauseMs = this.#driver.retryMs(claim);
    const restMs = unused ? 0 : claim.heldUntilMs() - nowMs();
    if (pauseMs === undefined && claim.unwanted) return;
    this.timers.later(Math.max(pauseMs ?? 0, restMs), () => {
      this.remove(claim).catch(() => this.#tryAgain(claim, unused));
    });
  }
}
