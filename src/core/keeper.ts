import type { Backend, Renewal, RenewRequest, Waiting } from "./backend.js";
import { lookForSleepMs, nowMs, type Sent, sendingNow } from "./clock.js";
import { asLockError } from "./errors.js";
import type { Events } from "./events.js";
import type { Place } from "./place.js";
import { startTimer, stopTimer } from "./timer.js";

const BATCH = 500;
const SHORTEST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 1_000;
/** A timer this much too late means that the process did not run. */
const LATE_MS = 200;

/**
 * The watchdog: one timer for a whole connection. It refreshes the places of holders and waiters at a
 * third of their time to live, in batches, and tells a holder when trust runs out. An error is not a
 * loss: it is tried again until the deadline.
 */
export class Keeper {
  readonly #backend: Backend;
  readonly #events: Events;
  readonly #onWaiting: (place: Place, answer: Waiting) => void;
  readonly #places = new Set<Place>();
  /** Places of one rhythm are refreshed at the same instants, so that they share a request. */
  readonly #nextDueMs = new Map<number, number>();
  #timer: NodeJS.Timeout | undefined;
  #wakeAtMs = Infinity;
  #working = false;

  constructor(backend: Backend, events: Events, onWaiting: (place: Place, answer: Waiting) => void) {
    this.#backend = backend;
    this.#events = events;
    this.#onWaiting = onWaiting;
  }

  /** Called before the claim is sent, so that no answer finds its place unattended. */
  add(place: Place): void {
    const atMs = nowMs();
    const intervalMs = place.ttlMs / 3;
    const sharedMs = this.#nextDueMs.get(intervalMs) ?? -Infinity;
    place.dueMs = sharedMs > atMs && sharedMs <= atMs + intervalMs ? sharedMs : atMs + intervalMs;
    this.#nextDueMs.set(intervalMs, place.dueMs);
    this.#places.add(place);
    this.#wakeBy(place.dueMs);
  }

  remove(place: Place): void {
    // The timer stays: it costs less to let it find nothing than to arm it anew for every lease.
    this.#places.delete(place);
  }

  /** The place is held from now on: its deadline is watched. */
  holds(place: Place): void {
    this.#wakeBy(Math.min(place.trustedUntilMs(), place.longHoldAtMs));
    this.answered(place);
  }

  /** If the answer was long under way, what it gave may be over before the turn of its place comes. */
  answered(place: Place): void {
    const atMs = nowMs();
    const remainingMs = place.trustedUntilMs() - atMs;
    if (place.dueMs <= atMs + (remainingMs * 2) / 3) return;
    place.dueMs = atMs + remainingMs / 3;
    this.#wakeBy(place.dueMs);
  }

  /** Asks about it now instead of when its turn comes. */
  hurry(place: Place): void {
    if (!this.#places.has(place)) return;
    place.dueMs = nowMs();
    this.#wakeBy(place.dueMs);
  }

  stop(): void {
    stopTimer(this.#timer);
    this.#timer = undefined;
    this.#wakeAtMs = Infinity;
    this.#places.clear();
    this.#nextDueMs.clear();
  }

  /** Whether the process evidently stood still: our timer should have run long ago. */
  overslept(): boolean {
    return nowMs() - this.#wakeAtMs > LATE_MS;
  }

  #wakeBy(atMs: number): void {
    if (atMs >= this.#wakeAtMs) return;
    stopTimer(this.#timer);
    this.#wakeAtMs = atMs;
    this.#timer = startTimer(() => this.#tick(), atMs - nowMs());
    // A program that has finished must be able to exit while it still holds something.
    if (!this.#working) this.#timer.unref();
  }

  /** While a callback works under a lease, the program has not finished. */
  set working(working: boolean) {
    this.#working = working;
    if (working) this.#timer?.ref();
    else this.#timer?.unref();
  }

  #tick(): void {
    lookForSleepMs();
    const overslept = this.overslept();
    const atMs = nowMs();
    this.#wakeAtMs = Infinity;
    const due: Place[] = [];
    let nextMs = Infinity;
    for (const place of this.#places) {
      if (place.held && atMs >= place.trustedUntilMs()) {
        this.#places.delete(place);
        place.listener?.expired(overslept || place.endedBySleep);
        continue;
      }
      if (atMs >= place.longHoldAtMs) {
        place.longHoldAtMs = Infinity;
        place.listener?.heldLong();
      }
      if (atMs >= place.dueMs) {
        due.push(place);
        place.dueMs = this.#nextBeat(place.ttlMs / 3, atMs);
      }
      nextMs = Math.min(
        nextMs,
        place.dueMs,
        place.longHoldAtMs,
        place.held ? place.trustedUntilMs() : Infinity,
      );
    }
    for (const [intervalMs, dueMs] of this.#nextDueMs) if (dueMs <= atMs) this.#nextDueMs.delete(intervalMs);
    this.#wakeBy(nextMs);
    for (let from = 0; from < due.length; from += BATCH)
      void this.#renew(due.slice(from, from + BATCH), atMs);
  }

  #nextBeat(intervalMs: number, atMs: number): number {
    const sharedMs = this.#nextDueMs.get(intervalMs) ?? -Infinity;
    if (sharedMs > atMs) return sharedMs;
    this.#nextDueMs.set(intervalMs, atMs + intervalMs);
    return atMs + intervalMs;
  }

  async #renew(places: readonly Place[], atMs: number): Promise<void> {
    const requests: RenewRequest[] = [];
    const asked: Place[] = [];
    for (const place of places) {
      const claim = place.claim();
      const ttlMs = place.renewalMs(atMs);
      if (claim === undefined || ttlMs === 0) continue;
      requests.push({ ...claim, ttlMs });
      asked.push(place);
    }
    if (requests.length === 0) return;
    const sent = sendingNow();
    try {
      const answers = await this.#backend.renew(requests);
      this.#told(asked, requests, answers, sent);
    } catch (error) {
      this.#retry(asked, asLockError(error, "renewal failed"));
    }
  }

  #told(
    places: readonly Place[],
    requests: readonly RenewRequest[],
    answers: readonly Renewal[],
    sent: Sent,
  ): void {
    const unknown: Place[] = [];
    let failure: unknown;
    for (const [index, place] of places.entries()) {
      const answer = answers[index];
      const request = requests[index];
      if (answer === undefined || request === undefined || !this.#places.has(place)) continue;
      if (answer.state === "unknown") {
        unknown.push(place);
        failure = answer.error;
        continue;
      }
      place.renewed(request.ticket, answer, sent);
      if (answer.state === "waiting") this.#onWaiting(place, answer);
    }
    if (unknown.length > 0) this.#retry(unknown, asLockError(failure, "renewal failed"));
  }

  #retry(places: readonly Place[], error: ReturnType<typeof asLockError>): void {
    this.#events.emit({
      type: "renew-failed",
      engine: this.#backend.traits.engine,
      claims: places.length,
      error,
    });
    const live = places.filter((place) => this.#places.has(place));
    // One resource that the engine cannot serve must not cost the others of its batch their leases.
    if (!error.retryable && live.length > 1) {
      for (const place of live) void this.#renew([place], nowMs());
      return;
    }
    for (const place of live) {
      const gapMs = Math.min(Math.max(place.ttlMs / 15, SHORTEST_RETRY_MS), LONGEST_RETRY_MS);
      place.dueMs = Math.min(place.dueMs, nowMs() + gapMs);
      this.#wakeBy(place.dueMs);
    }
  }
}
