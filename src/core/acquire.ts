import {
  type AcquireRequest,
  AgreedCapacity,
  claimRequest,
  outage,
  queueFull,
  tooSlow,
} from "./acquire-request.js";
import type { Answer, Gone } from "./backend.js";
import { ClaimState, type WaiterListener } from "./claim-state.js";
import { elapsedMs, nowMs, sendingNow } from "./clock.js";
import type { Cancellable, Connection } from "./connection.js";
import { timeoutError } from "./diagnostics/timeout-error.js";
import { asLockError, isLockError, type LockError } from "./errors.js";
import type { About } from "./events.js";
import { HeldClaim } from "./held-claim.js";
import { POLL_MS } from "./renewer.js";
import { onAbort, startTimer, stopTimer } from "./timer.js";

/** Waits for the grant; `undefined` means that a single question was refused. */
export function acquire(connection: Connection, request: AcquireRequest): Promise<HeldClaim | undefined> {
  connection.assertOpen(request.name);
  request.signal?.throwIfAborted();
  return new Acquisition(connection, request).run();
}

const FIRST_BACKOFF_MS = 20;
const LONGEST_BACKOFF_MS = 1_000;
const FEWEST_FAILURES = 2;
const WAIT_IS_OVER = Symbol("the wait is over");

type Next = "granted" | "refused" | "sleep" | "again";

/**
 * The wait loop: ask; sleep until a notification, the expiry poll or a renewal says that something may have changed,
 * or until the wait is over; ask again. A claim that leaves it without a grant is withdrawn.
 */
class Acquisition implements WaiterListener, Cancellable {
  readonly name: string;
  readonly #connection: Connection;
  readonly #request: AcquireRequest;
  readonly #capacity: AgreedCapacity;
  readonly #startMs = nowMs();
  readonly #deadlineMs: number;
  #claim: ClaimState;
  #inFlight: Promise<Answer> | undefined;
  #cancelled: { readonly error: unknown } | undefined;
  #interrupt: ((error: unknown) => void) | undefined;
  #wake: (() => void) | undefined;
  #notified = false;
  /** An engine that has no queue said when to ask again. */
  #againAtMs = Infinity;
  #grantWasNotified = false;
  #gone: Gone | undefined;
  #outageSinceMs: number | undefined;
  #answeredMs: number | undefined;
  #lastFailure: LockError | undefined;
  #failures = 0;
  #toldSlow = false;
  /** The engine has kept nothing of us. */
  #wasRefused = false;

  constructor(connection: Connection, request: AcquireRequest) {
    this.name = request.name;
    this.#connection = connection;
    this.#request = request;
    this.#capacity = new AgreedCapacity(request);
    this.#deadlineMs = this.#startMs + request.waitMs;
    this.#claim = this.#newClaim();
  }

  async run(): Promise<HeldClaim | undefined> {
    const { signal } = this.#request;
    const off = signal === undefined ? undefined : onAbort(signal, () => this.cancel(signal.reason));
    this.#connection.waits.add(this);
    try {
      return await this.#loop();
    } catch (error) {
      if (this.#wasRefused) {
        this.#connection.leave(this.#claim);
        throw error;
      }
      const withdrawal = this.#connection.withdraw(this.#claim, this.#inFlight);
      this.#connection.inBackground(withdrawal);
      // A caller that has cancelled goes on at once; after a timeout the claim is gone when the caller hears of it.
      if (isLockError(error, "timeout")) await withdrawal;
      throw error;
    } finally {
      off?.();
      this.#connection.waits.delete(this);
      this.#connection.expiryPoll.leave(this);
    }
  }

  async #loop(): Promise<HeldClaim | undefined> {
    this.#connection.enter(this.#claim);
    for (;;) {
      const next = await this.#askOnce();
      if (next === "refused") {
        this.#connection.leave(this.#claim);
        return undefined;
      }
      if (next === "sleep") await this.#sleep();
      if (this.#cancelled !== undefined) throw this.#cancelled.error;
      const granted = next === "granted" || (this.#grantWasNotified && this.#claim.trusted());
      // Whatever was granted: if it has been taken away meanwhile, it is not a lease.
      if (granted && this.#gone === undefined) {
        return new HeldClaim(this.#connection, this.#claim, this.#capacity.request);
      }
      if (nowMs() >= this.#deadlineMs) await this.#giveUp();
    }
  }

  async #askOnce(): Promise<Next> {
    if (this.#gone !== undefined) this.#reenter(this.#gone);
    this.#notified = false;
    this.#againAtMs = Infinity;
    // A notification that arrives while we ask still counts; an older one is overtaken by the engine's answer.
    this.#grantWasNotified = false;
    const sent = sendingNow();
    let answer: Answer;
    try {
      answer = await this.#send();
    } catch (error) {
      this.#request.onAnswer?.();
      return this.#failed(error, sent.atMs);
    }
    this.#request.onAnswer?.(answer);
    this.#answeredMs = nowMs();
    if (answer.state === "granted") {
      this.#claim.acknowledge(answer.ticket, answer.remainingMs, sent);
      if (this.#claim.trusted()) return "granted";
      return this.#failed(tooSlow(this.#request), sent.atMs);
    }
    switch (answer.state) {
      case "waiting":
        this.#outageSinceMs = undefined;
        this.#failures = 0;
        this.#claim.acknowledge(answer.ticket, answer.remainingMs, sent);
        this.#connection.renewer.answered(this.#claim);
        this.#connection.expiryPoll.enter(this);
        this.#connection.expiryPoll.expect(this.name, answer.changeInMs);
        return "sleep";
      case "refused":
        if (this.#request.waitMs === 0) return "refused";
        // Without a queue there is no position to lose: it asks again, as often as the engine says.
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
        this.#wasRefused = true;
        throw queueFull(this.#request, answer.waiters);
    }
  }

  /** Another capacity is in force: it agrees, waits for the claim that is just changing it, or leaves. */
  #mismatched(capacity: number): Promise<Next> | Next {
    this.#wasRefused = true;
    const againInMs = this.#capacity.mismatched(capacity);
    this.#wasRefused = false;
    if (againInMs === 0) return this.#askOnce();
    this.#againAtMs = nowMs() + againInMs;
    return this.#request.waitMs === 0 ? "refused" : "sleep";
  }

  /** The answer, or an error as soon as the caller interrupts; the request itself goes on. */
  #send(): Promise<Answer> {
    const claim = this.#claim;
    const send = () =>
      this.#connection.backend.claim(claimRequest(this.#connection.owner, this.#capacity.request, claim));
    const asked = this.#capacity.unknown?.then(send) ?? send();
    const first = this.#inFlight === undefined;
    this.#inFlight = asked;
    // Most questions are the first, are answered at once, and only close() can cancel them.
    if (first && this.#request.signal === undefined) return asked;
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
    if (!failure.retryable || this.#request.waitMs === 0) throw failure;
    this.#outageSinceMs ??= sentAtMs;
    this.#lastFailure = failure;
    const outageMs = nowMs() - this.#outageSinceMs;
    // Making the first connection may take longer than a short ttl; that alone is no outage.
    if (outageMs >= this.#request.ttlMs && this.#failures >= FEWEST_FAILURES)
      throw outage(this.name, outageMs, failure);
    if (nowMs() >= this.#deadlineMs) return "again";
    const longestMs = Math.min(LONGEST_BACKOFF_MS, this.#request.ttlMs / 5);
    const backoffMs =
      Math.min(FIRST_BACKOFF_MS * 2 ** this.#failures++, longestMs) * (0.5 + Math.random() / 2);
    await this.#pause(Math.min(backoffMs, this.#deadlineMs - nowMs()));
    return "again";
  }

  /** Until something may have changed, or the wait is over. */
  async #sleep(): Promise<void> {
    const slowAtMs = this.#startMs + this.#request.ttlMs;
    const untilMs = Math.min(this.#deadlineMs, this.#againAtMs);
    while (!this.#notified && this.#cancelled === undefined && nowMs() < untilMs) {
      if (!this.#toldSlow && nowMs() >= slowAtMs) {
        this.#toldSlow = true;
        this.#connection.events.emit({
          type: "slow-wait",
          ...this.#about(),
          waitedMs: elapsedMs(this.#startMs),
        });
      }
      await this.#pause((this.#toldSlow ? untilMs : Math.min(untilMs, slowAtMs)) - nowMs());
    }
  }

  /** A ref'd timer: a process in the middle of a wait must not exit. */
  async #pause(ms: number): Promise<void> {
    if (this.#notified || this.#cancelled !== undefined) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      timer = startTimer(resolve, ms);
    });
    this.#wake = undefined;
    stopTimer(timer);
  }

  async #giveUp(): Promise<never> {
    // From here on another waiter has to poll.
    this.#connection.expiryPoll.leave(this);
    const waitedMs = elapsedMs(this.#startMs);
    if (this.#outageSinceMs !== undefined && this.#lastFailure !== undefined) {
      throw outage(this.name, nowMs() - this.#outageSinceMs, this.#lastFailure);
    }
    let error: LockError;
    try {
      error = await timeoutError(this.#connection, this.name, waitedMs, this.#claim.ticket);
    } catch (failure) {
      // It was asleep when the engine went away: that is an outage, too, and not contention.
      const cause = asLockError(failure, `could not look at "${this.name}"`);
      throw outage(this.name, nowMs() - (this.#answeredMs ?? this.#startMs), cause);
    }
    this.#connection.events.emit({ type: "timeout", ...this.#about(), waitedMs });
    throw error;
  }

  #newClaim(): ClaimState {
    const { name, kind, ttlMs, fixed, minHoldMs } = this.#request;
    // Where the grant starts a clock of its own, the engine's answer must say so; a notification cannot.
    const claim = new ClaimState(name, kind, ttlMs, fixed, !fixed && minHoldMs === 0);
    claim.waitedForBy(this);
    return claim;
  }

  /** The claim is gone, and its position lost. It never comes back: a new claim with a new id goes to the end of the queue. */
  #reenter(gone: Gone): void {
    this.#connection.events.emit({ type: "queue-position-lost", ...this.#about(), reason: gone.reason });
    this.#connection.leave(this.#claim);
    this.#gone = undefined;
    this.#wasRefused = true;
    this.#request.onPositionLost?.(gone, this.#claim.ticket ?? 0n);
    this.#capacity.positionLost(gone.resize);
    this.#wasRefused = false;
    this.#grantWasNotified = false;
    this.#claim = this.#newClaim();
    this.#connection.enter(this.#claim);
  }

  #about(): About {
    return this.#connection.about(this.#request);
  }

  cancel(error: unknown): void {
    this.#cancelled ??= { error };
    this.#interrupt?.(error);
    this.#wake?.();
  }

  notified(): void {
    this.#notified = true;
    this.#wake?.();
  }

  granted(): void {
    this.#grantWasNotified = true;
    this.notified();
  }

  gone(gone: Gone): void {
    this.#gone = gone;
    this.notified();
  }
}
