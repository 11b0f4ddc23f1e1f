import { nowMs } from "../../core/clock.js";
import { startTimer } from "../../core/timer.js";
import type { Desk } from "./desk.js";
import type { EtcdPlace } from "./place.js";

const SHORTEST_RETRY_MS = 500;

/** Giving places back: now, when their minimal time is over, or, after an outage, as soon as that can be done. */
export class Leaving {
  readonly #desk: Desk;
  readonly #timers = new Set<NodeJS.Timeout>();
  #closed = false;

  constructor(desk: Desk) {
    this.#desk = desk;
  }

  /** Says whether it was still there. What nobody has worked under need not stay for its minimal time. */
  async release(place: EtcdPlace, unused = false): Promise<boolean> {
    try {
      const restMs = place.heldUntilMs() - nowMs();
      if (restMs > 0 && !unused) return await this.#leaveLater(place, restMs);
      const found = await this.#remove(place);
      this.#desk.forget(place);
      return found;
    } catch (error) {
      this.#clearAway(place);
      throw error;
    }
  }

  /** It was given up, but a request to make it may still be under way, or its key be there unseen. */
  dispel(place: EtcdPlace): void {
    this.#remove(place).catch(() => this.#clearAway(place));
  }

  /** What could not be given back would last as long as the session, which others may keep: tried until it is. */
  #clearAway(place: EtcdPlace): void {
    if (place.session.gone) this.#desk.forget(place);
    if (this.#closed || place.session.gone) return;
    this.#after(Math.max(SHORTEST_RETRY_MS, place.session.ttlMs / 3), () => {
      this.#remove(place).then(
        () => this.#desk.forget(place),
        () => this.#clearAway(place),
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
  async #leaveLater(place: EtcdPlace, restMs: number): Promise<boolean> {
    const { count } = await this.#desk.rpc.range({ key: place.key, keys_only: true });
    if (count === "0") {
      this.#desk.forget(place);
      return false;
    }
    place.left = true;
    this.#after(restMs, () => {
      this.#remove(place).then(
        () => this.#desk.forget(place),
        () => this.#desk.forget(place),
      );
    });
    return true;
  }

  async #remove(place: EtcdPlace): Promise<boolean> {
    await place.callOff();
    const { responses } = await this.#desk.rpc.txn({
      success: [{ request_delete_range: { key: place.key } }],
    });
    const { lease } = place.alone ?? {};
    if (lease !== undefined) this.#desk.rpc.revokeLease(lease).catch(() => undefined);
    return responses[0]?.response_delete_range?.deleted === "1";
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#timers) clearTimeout(timer);
  }
}
