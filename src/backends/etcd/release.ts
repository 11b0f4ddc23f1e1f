import { nowMs } from "../../core/clock.js";
import { startTimer } from "../../core/timer.js";
import type { EngineState } from "./engine-state.js";
import type { OwnClaim } from "./own-claim.js";

const SHORTEST_RETRY_MS = 500;

/** Giving places back: now, when their minimal time is over, or, after an outage, as soon as that can be done. */
export class Releases {
  readonly #engine: EngineState;
  readonly #timers = new Set<NodeJS.Timeout>();
  #closed = false;

  constructor(engine: EngineState) {
    this.#engine = engine;
  }

  /** Says whether it was still there. What nobody has worked under need not stay for its minimal time. */
  async release(ownClaim: OwnClaim, unused = false): Promise<boolean> {
    try {
      const restMs = ownClaim.heldUntilMs() - nowMs();
      if (restMs > 0 && !unused) return await this.#leaveLater(ownClaim, restMs);
      const found = await this.#remove(ownClaim);
      this.#engine.forget(ownClaim);
      return found;
    } catch (error) {
      this.#clearAway(ownClaim, unused);
      throw error;
    }
  }

  /** It was given up, but a request to make it may still be under way, or its key be there unseen. */
  cancelPending(ownClaim: OwnClaim): void {
    this.#remove(ownClaim).catch(() => this.#clearAway(ownClaim, true));
  }

  /**
   * What could not be given back would last as long as the session, which other claims may keep: tried until it is,
   * but not before the minimal time of the claim is over.
   */
  #clearAway(ownClaim: OwnClaim, unused: boolean): void {
    if (ownClaim.session.gone) this.#engine.forget(ownClaim);
    if (this.#closed || ownClaim.session.gone) return;
    const restMs = unused ? 0 : ownClaim.heldUntilMs() - nowMs();
    this.#after(Math.max(SHORTEST_RETRY_MS, ownClaim.session.ttlMs / 3, restMs), () => {
      this.#remove(ownClaim).then(
        () => this.#engine.forget(ownClaim),
        () => this.#clearAway(ownClaim, unused),
      );
    });
  }

  #after(ms: number, work: () => void): void {
    const timer = startTimer(() => {
      this.#timers.delete(timer);
      work();
    }, ms).unref();
    this.#timers.add(timer);
  }

  /** Its own lease keeps it if this process ends meanwhile; while it runs, it is removed to the moment. */
  async #leaveLater(ownClaim: OwnClaim, restMs: number): Promise<boolean> {
    const { count } = await this.#engine.rpc.range({ key: ownClaim.key, keys_only: true });
    if (count === "0") {
      this.#engine.forget(ownClaim);
      return false;
    }
    ownClaim.left = true;
    this.#after(restMs, () => {
      this.#remove(ownClaim).then(
        () => this.#engine.forget(ownClaim),
        () => this.#engine.forget(ownClaim),
      );
    });
    return true;
  }

  async #remove(ownClaim: OwnClaim): Promise<boolean> {
    await ownClaim.cancelPending();
    const { responses } = await this.#engine.rpc.txn({
      success: [{ request_delete_range: { key: ownClaim.key } }],
    });
    const { lease } = ownClaim.alone ?? {};
    if (lease !== undefined) this.#engine.rpc.revokeLease(lease).catch(() => undefined);
    return responses[0]?.response_delete_range?.deleted === "1";
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#timers) clearTimeout(timer);
  }
}
