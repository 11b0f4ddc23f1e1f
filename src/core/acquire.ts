import { onAbort } from "./abort.js";
import { type Ask, claimRequest } from "./ask.js";
import type { Answer, Gone } from "./backend.js";
import { nowMs, sendingNow } from "./clock.js";
import type { Cancellable, Connection } from "./connection.js";
import { asLockError, isLockError, type LockError } from "./errors.js";
import type { About } from "./events.js";
import { Hold } from "./hold.js";
import { POLL_MS } from "./lookout.js";
import { Place, type PlaceListener } from "./place.js";
import { outage, queueFull, tooSlow } from "./refusals.js";
import { AgreedCapacity } from "./resizing.js";
import { timeoutError } from "./timeout.js";
import { startTimer, stopTimer } from "./timer.js";

/** Waits for the grant; `undefined` means that a single question was refused. */
export function acquire(connection: Connection, ask: Ask): Promise<Hold | undefined> {
  connection.assertOpen(ask.name);
  ask.signal?.throwIfAborted();
  return new Wait(connection, ask).run();
}

const FIRST_BACKOFF_MS = 20;
const LONGEST_BACKOFF_MS = 1_000;
const FEWEST_FAILURES = 2;
const WAIT_IS_OVER = Symbol("the wait is over");

type Next = "granted" | "refused" | "sleep" | "again";

/**
 * The wait loop: ask; sleep until rung, until the lookout or the keeper says that something may have
 * changed, or until the wait is over; ask again. Whoever leaves it without a grant withdraws.
 */
class Wait implements PlaceListener, Cancellable {
  readonly name: string;
  readonly #connection: Connection;
  readonly #ask: Ask;
  readonly #capacity: AgreedCapacity;
  readonly #startMs = nowMs();
  readonly #deadlineMs: number;
  #place: Place;
  #inFlight: Promise<Answer> | undefined;
  #cancelled: { readonly error: unknown } | undefined;
  #interrupt: ((error: unknown) => void) | undefined;
  #wake: (() => void) | undefined;
  #rung = false;
  /** An engine that has no queue said when to ask again. */
  #againAtMs = Infinity;
  #grantedByRing = false;
  #gone: Gone | undefined;
  #outageSinceMs: number | undefined;
  #answeredMs: number | undefined;
  #lastFailure: LockError | undefined;
  #failures = 0;
  #toldSlow = false;
  /** The engine has kept nothing of us. */
  #turnedAway = false;

  constructor(connection: Connection, ask: Ask) {
    this.name = ask.name;
    this.#connection = connection;
    this.#ask = ask;
    this.#capacity = new AgreedCapacity(ask);
    this.#deadlineMs = this.#startMs + ask.waitMs;
    this.#place = this.#newPlace();
  }

  async run(): Promise<Hold | undefined> {
    const { signal } = this.#ask;
    const off = signal === undefined ? undefined : onAbort(signal, () => this.cancel(signal.reason));
    this.#connection.waits.add(this);
    try {
      return await this.#loop();
    } catch (error) {
      if (this.#turnedAway) {
        this.#connection.leave(this.#place);
        throw error;
      }
      const withdrawal = this.#connection.withdraw(this.#place, this.#inFlight);
      this.#connection.inBackground(withdrawal);
      // Who was cancelled wants to go at once; after a timeout the place is gone when the caller hears of it.
      if (isLockError(error, "timeout")) await withdrawal;
      throw error;
    } finally {
      off?.();
      this.#connection.waits.delete(this);
      this.#connection.lookout.leave(this);
    }
  }

  async #loop(): Promise<Hold | undefined> {
    this.#connection.enter(this.#place);
    for (;;) {
      const next = await this.#askOnce();
      if (next === "refused") {
        this.#connection.leave(this.#place);
        return undefined;
      }
      if (next === "sleep") await this.#sleep();
      if (this.#cancelled !== undefined) throw this.#cancelled.error;
      const granted = next === "granted" || (this.#grantedByRing && this.#place.trusted());
      // Whatever was granted: if it has been taken away meanwhile, it is not a lease.
      if (granted && this.#gone === undefined) {
        return new Hold(this.#connection, this.#place, this.#capacity.ask);
      }
      if (nowMs() >= this.#deadlineMs) await this.#giveUp();
    }
  }

  async #askOnce(): Promise<Next> {
    if (this.#gone !== undefined) this.#reenter(this.#gone);
    this.#rung = false;
    this.#againAtMs = Infinity;
    // A ring that comes while we ask still counts; an older one is overtaken by the engine's answer.
    this.#grantedByRing = false;
    const sent = sendingNow();
    let answer: Answer;
    try {
      answer = await this.#send();
    } catch (error) {
      this.#ask.onAnswer?.();
      return this.#failed(error, sent.atMs);
    }
    this.#ask.onAnswer?.(answer);
    this.#answeredMs = nowMs();
    if (answer.state === "granted") {
      this.#place.acknowledge(answer.ticket, answer.remainingMs, sent);
      if (this.#place.trusted()) return "granted";
      return this.#failed(tooSlow(this.#ask), sent.atMs);
    }
    switch (answer.state) {
      case "waiting":
        this.#outageSinceMs = undefined;
        this.#failures = 0;
        this.#place.acknowledge(answer.ticket, answer.remainingMs, sent);
        this.#connection.keeper.answered(this.#place);
        this.#connection.lookout.enter(this);
        this.#connection.lookout.expect(this.name, answer.changeInMs);
        return "sleep";
      case "refused":
        if (this.#ask.waitMs === 0) return "refused";
        // Without a queue there is no place to be lost: it asks again, as often as the engine says.
        this.#outageSinceMs = undefined;
        this.#failures = 0;
        this.#againAtMs = nowMs() + (answer.againInMs ?? POLL_MS);
        return "sleep";
      case "gone":
        this.#gone = answer;
        return "again";
      case "capacity-mismatch":
        return this.#mismatched(answer.capacity);
      default:
        this.#turnedAway = true;
        throw queueFull(this.#ask, answer.waiters);
    }
  }

  /** Another capacity is in force: it agrees, waits for whoever is just changing it, or leaves. */
  #mismatched(capacity: number): Promise<Next> | Next {
    this.#turnedAway = true;
    const againInMs = this.#capacity.mismatched(capacity);
    this.#turnedAway = false;
    if (againInMs === 0) return this.#askOnce();
    this.#againAtMs = nowMs() + againInMs;
    return this.#ask.waitMs === 0 ? "refused" : "sleep";
  }

  /** The answer, or an error as soon as somebody interrupts; the request itself goes on by itself. */
  #send(): Promise<Answer> {
    const place = this.#place;
    const claim = () =>
      this.#connection.backend.claim(claimRequest(this.#connection, this.#capacity.ask, place));
    const asked = this.#capacity.unknown?.then(claim) ?? claim();
    const first = this.#inFlight === undefined;
    this.#inFlight = asked;
    // Most questions are the first, are answered at once, and nobody can call them off but a closing.
    if (first && this.#ask.signal === undefined) return asked;
    return new Promise((resolve, reject) => {
      this.#interrupt = reject;
      asked.then(resolve, reject);
      // The first question is always heard out: a short wait must not fail on a free lock.
      if (first || this.#deadlineMs === Infinity) return;
      const timer = startTimer(() => reject(WAIT_IS_OVER), this.#deadlineMs - nowMs());
      const stop = () => stopTimer(timer);
      asked.then(stop, stop);
    });
  }

  /** An outage is ridden through until the wait ends, or for one ttl; then it is an error, never a timeout. */
  async #failed(error: unknown, sentAtMs: number): Promise<Next> {
    if (this.#cancelled !== undefined) throw this.#cancelled.error;
    if (error === WAIT_IS_OVER) return "again";
    const failure = asLockError(error, `could not ask for "${this.name}"`);
    if (!failure.retryable || this.#ask.waitMs === 0) throw failure;
    this.#outageSinceMs ??= sentAtMs;
    this.#lastFailure = failure;
    const outageMs = nowMs() - this.#outageSinceMs;
    // Making the first connection may take longer than a short ttl; that alone is no outage.
    if (outageMs >= this.#ask.ttlMs && this.#failures >= FEWEST_FAILURES)
      throw outage(this.name, outageMs, failure);
    if (nowMs() >= this.#deadlineMs) return "again";
    const longestMs = Math.min(LONGEST_BACKOFF_MS, this.#ask.ttlMs / 5);
    const backoffMs =
      Math.min(FIRST_BACKOFF_MS * 2 ** this.#failures++, longestMs) * (0.5 + Math.random() / 2);
    await this.#pause(Math.min(backoffMs, this.#deadlineMs - nowMs()));
    return "again";
  }

  /** Until something may have changed, or the wait is over. */
  async #sleep(): Promise<void> {
    const slowAtMs = this.#startMs + this.#ask.ttlMs;
    const untilMs = Math.min(this.#deadlineMs, this.#againAtMs);
    while (!this.#rung && this.#cancelled === undefined && nowMs() < untilMs) {
      if (!this.#toldSlow && nowMs() >= slowAtMs) {
        this.#toldSlow = true;
        this.#connection.events.emit({
          type: "slow-wait",
          ...this.#about(),
          waitedMs: nowMs() - this.#startMs,
        });
      }
      await this.#pause((this.#toldSlow ? untilMs : Math.min(untilMs, slowAtMs)) - nowMs());
    }
  }

  /** A ref'd timer: a process in the middle of a wait must not exit. */
  async #pause(ms: number): Promise<void> {
    if (this.#rung || this.#cancelled !== undefined) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      timer = startTimer(resolve, ms);
    });
    this.#wake = undefined;
    stopTimer(timer);
  }

  async #giveUp(): Promise<never> {
    // From here on somebody else has to look out.
    this.#connection.lookout.leave(this);
    const waitedMs = nowMs() - this.#startMs;
    if (this.#outageSinceMs !== undefined && this.#lastFailure !== undefined) {
      throw outage(this.name, nowMs() - this.#outageSinceMs, this.#lastFailure);
    }
    let error: LockError;
    try {
      error = await timeoutError(this.#connection, this.name, waitedMs, this.#place.ticket);
    } catch (failure) {
      // It was asleep when the engine went away: that is an outage, too, and not contention.
      const cause = asLockError(failure, `could not look at "${this.name}"`);
      throw outage(this.name, nowMs() - (this.#answeredMs ?? this.#startMs), cause);
    }
    this.#connection.events.emit({ type: "timeout", ...this.#about(), waitedMs });
    throw error;
  }

  #newPlace(): Place {
    const { name, kind, ttlMs, fixed, minHoldMs } = this.#ask;
    // Where the grant starts a clock of its own, the engine's answer must say so; a ring cannot.
    const place = new Place(name, kind, ttlMs, fixed, !fixed && minHoldMs === 0);
    place.listener = this;
    return place;
  }

  /** My place is gone. It never comes back: a new claim with a new id goes to the end of the queue. */
  #reenter(gone: Gone): void {
    this.#connection.events.emit({ type: "queue-position-lost", ...this.#about(), reason: gone.reason });
    this.#connection.leave(this.#place);
    this.#gone = undefined;
    this.#turnedAway = true;
    this.#ask.onPlaceLost?.(gone, this.#place.ticket ?? 0n);
    this.#capacity.lostPlace(gone.reason);
    this.#turnedAway = false;
    this.#grantedByRing = false;
    this.#place = this.#newPlace();
    this.#connection.enter(this.#place);
  }

  #about(): About {
    return this.#connection.about(this.#ask);
  }

  cancel(error: unknown): void {
    this.#cancelled ??= { error };
    this.#interrupt?.(error);
    this.#wake?.();
  }

  rung(): void {
    this.#rung = true;
    this.#wake?.();
  }

  granted(): void {
    this.#grantedByRing = true;
    this.rung();
  }

  gone(gone: Gone): void {
    this.#gone = gone;
    this.rung();
  }

  expired(): void {
    // Only held places run out; one that waits is refreshed or found gone.
  }

  heldLong(): void {
    // It is not held yet.
  }
}
