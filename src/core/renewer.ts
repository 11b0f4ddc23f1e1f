import type { Backend, Renewal, RenewRequest, Waiting } from "./backend.js";
import type { ClaimState } from "./claim-state.js";
import { lookForSleepMs, nowMs, type Sent, sendingNow, wasFrozen } from "./clock.js";
import { asLockError } from "./errors.js";
import type { Events } from "./events.js";
import { ShortLivedMap, ShortLivedSet } from "./short-lived.js";
import { startTimer, stopTimer } from "./timer.js";

const BATCH = 500;
const SHORTEST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 1_000;

/**
 * The watchdog: one timer for a whole connection. It refreshes the claims of holders and waiters at a
 * third of their time to live, in batches, and tells a holder when trust runs out. A failed renewal is not a
 * loss: it is repeated until the trust ends.
 */
export class Renewer {
  readonly #backend: Backend;
  readonly #events: Events;
  readonly #onWaiting: (claim: ClaimState, answer: Waiting) => void;
  readonly #claims = new ShortLivedSet<ClaimState>();
  /** Claims with the same ttl are renewed at the same time, so that they share a request. */
  readonly #nextDueMs = new Map<number, number>();
  #timer: NodeJS.Timeout | undefined;
  #wakeAtMs = Infinity;
  #working = false;

  constructor(backend: Backend, events: Events, onWaiting: (claim: ClaimState, answer: Waiting) => void) {
    this.#backend = backend;
    this.#events = events;
    this.#onWaiting = onWaiting;
  }

  /** Called before the claim is sent, so that no answer finds its claim unattended. */
  add(claim: ClaimState): void {
    const atMs = nowMs();
    const intervalMs = claim.ttlMs / 3;
    const sharedMs = this.#nextDueMs.get(intervalMs) ?? -Infinity;
    claim.dueMs = sharedMs > atMs && sharedMs <= atMs + intervalMs ? sharedMs : atMs + intervalMs;
    this.#nextDueMs.set(intervalMs, claim.dueMs);
    this.#claims.add(claim);
    this.#wakeBy(claim.dueMs);
  }

  remove(claim: ClaimState): void {
    // The timer stays: it costs less to let it find nothing than to arm it anew for every lease.
    this.#claims.delete(claim);
  }

  /** The claim is held from now on, or its limit has changed: its deadline is watched. */
  holds(claim: ClaimState): void {
    this.#wakeBy(Math.min(claim.trustedUntilMs(), claim.longHoldAtMs));
    this.answered(claim);
  }

  /** A slow answer leaves less time: the claim is renewed earlier if needed. */
  answered(claim: ClaimState): void {
    const atMs = nowMs();
    const remainingMs = claim.trustedUntilMs() - atMs;
    if (claim.dueMs <= atMs + (remainingMs * 2) / 3) return;
    claim.dueMs = atMs + remainingMs / 3;
    this.#wakeBy(claim.dueMs);
  }

  /** Asks about it now instead of when its turn comes. */
  hurry(claim: ClaimState): void {
    if (!this.#claims.has(claim)) return;
    claim.dueMs = nowMs();
    this.#wakeBy(claim.dueMs);
  }

  stop(): void {
    stopTimer(this.#timer);
    this.#timer = undefined;
    this.#wakeAtMs = Infinity;
    this.#claims.clear();
    this.#nextDueMs.clear();
  }

  /** Whether the process evidently stood still: our timer should have run long ago. */
  overslept(): boolean {
    return wasFrozen(this.#wakeAtMs);
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
    const due: ClaimState[] = [];
    let nextMs = Infinity;
    for (const claim of this.#claims) {
      if (claim.held && atMs >= claim.trustedUntilMs()) {
        this.#claims.delete(claim);
        claim.expired(overslept || claim.endedBySleep);
        continue;
      }
      if (atMs >= claim.longHoldAtMs) {
        claim.heldLong();
      }
      if (atMs >= claim.dueMs) {
        due.push(claim);
        claim.dueMs = this.#nextBeat(claim.ttlMs / 3, atMs);
      }
      nextMs = Math.min(
        nextMs,
        claim.dueMs,
        claim.longHoldAtMs,
        claim.held ? claim.trustedUntilMs() : Infinity,
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

  async #renew(claims: readonly ClaimState[], atMs: number): Promise<void> {
    const requests: RenewRequest[] = [];
    const asked: ClaimState[] = [];
    for (const claim of claims) {
      const identity = claim.identity();
      const ttlMs = claim.renewalMs(atMs);
      if (identity === undefined || ttlMs === 0) continue;
      requests.push({ ...identity, ttlMs });
      asked.push(claim);
    }
    if (requests.length === 0) return;
    const sent = sendingNow();
    try {
      const answers = await this.#backend.renew(requests);
      this.#handleAnswers(asked, requests, answers, sent);
    } catch (error) {
      this.#retry(asked, asLockError(error, "renewal failed"));
    }
  }

  #handleAnswers(
    claims: readonly ClaimState[],
    requests: readonly RenewRequest[],
    answers: readonly Renewal[],
    sent: Sent,
  ): void {
    const unknown: ClaimState[] = [];
    let failure: unknown;
    for (const [index, claim] of claims.entries()) {
      const answer = answers[index];
      const request = requests[index];
      if (answer === undefined || request === undefined || !this.#claims.has(claim)) continue;
      if (answer.state === "unknown") {
        unknown.push(claim);
        failure = answer.error;
        continue;
      }
      claim.renewed(request.ticket, answer, sent);
      if (answer.state === "waiting") this.#onWaiting(claim, answer);
    }
    if (unknown.length > 0) this.#retry(unknown, asLockError(failure, "renewal failed"));
  }

  #retry(claims: readonly ClaimState[], error: ReturnType<typeof asLockError>): void {
    this.#events.emit({
      type: "renew-failed",
      engine: this.#backend.traits.engine,
      claims: claims.length,
      error,
    });
    const live = claims.filter((claim) => this.#claims.has(claim));
    // One resource that the engine cannot serve must not cost the others of its batch their leases.
    if (!error.retryable && live.length > 1) {
      for (const claim of live) void this.#renew([claim], nowMs());
      return;
    }
    for (const claim of live) {
      const gapMs = Math.min(Math.max(claim.ttlMs / 15, SHORTEST_RETRY_MS), LONGEST_RETRY_MS);
      claim.dueMs = Math.min(claim.dueMs, nowMs() + gapMs);
      this.#wakeBy(claim.dueMs);
    }
  }
}

/** Even if no notification arrives and nothing is about to expire, a waiter asks again after this. */
export const POLL_MS = 6_000;
/** An engine may say "in 0 ms" again and again; it is not asked more often than this. */
const SHORTEST_MS = 5;

interface Waiter {
  readonly name: string;
  notified(): void;
}

interface WaitersOfName {
  readonly waiters: Set<Waiter>;
  timer: NodeJS.Timeout | undefined;
}

/**
 * A crashed holder notifies no waiter, so a waiter has to ask the engine when the next claim of its name expires, its
 * own included. Of all waiters of this connection for one name only the first asks: the engine's answer lets the next
 * claim in, in whichever process that claim waits.
 */
export class ExpiryPoll {
  readonly #names = new ShortLivedMap<string, WaitersOfName>();

  enter(waiter: Waiter): void {
    const known = this.#names.get(waiter.name);
    if (known !== undefined) known.waiters.add(waiter);
    else this.#names.set(waiter.name, { waiters: new Set([waiter]), timer: undefined });
  }

  leave(waiter: Waiter): void {
    const known = this.#names.get(waiter.name);
    if (known === undefined || !known.waiters.delete(waiter) || known.waiters.size > 0) return;
    stopTimer(known.timer);
    this.#names.delete(waiter.name);
  }

  /** The engine's newest answer says when something may change by itself. */
  expect(name: string, changeInMs: number): void {
    const known = this.#names.get(name);
    if (known === undefined) return;
    const delayMs = Math.min(Math.max(changeInMs + 1, SHORTEST_MS), POLL_MS);
    stopTimer(known.timer);
    // Each waiter has a timer of its own that keeps the process alive.
    known.timer = startTimer(() => this.#poll(known), delayMs).unref();
  }

  #poll(known: WaitersOfName): void {
    // The answer to the first waiter sets the next time. If it gets none, this timer polls again.
    known.timer = startTimer(() => this.#poll(known), POLL_MS).unref();
    const [first] = known.waiters;
    first?.notified();
  }
}
