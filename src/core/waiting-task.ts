import { type AcquireRequest, outage } from "./acquire-request.js";
import type { Asking } from "./asking.js";
import { elapsedMs, nowMs } from "./clock.js";
import type { Cancellable, Connection } from "./connection.js";
import { type LocalPosition, timeoutError } from "./diagnostics/timeout-error.js";
import { asLockError, type LockError } from "./errors.js";
import type { HeldClaim } from "./held-claim.js";
import { onAbort, startTimer, stopTimer } from "./timer.js";

/** Where a task waits. */
export interface WaitingPlace {
  /** The claim that asks for it, if there is one now. */
  readonly asking: Asking | undefined;
  /** Its position among the tasks of this process that wait for the same claim. */
  positionOf(task: WaitingTask): LocalPosition | undefined;
  /** It waits no more. The promise of the withdrawal, if its claim is not needed any more. */
  leave(task: WaitingTask): Promise<void> | undefined;
}

/**
 * One call that waits for a grant, with its own time, signal and errors. Which claim it waits for, and whether other
 * tasks wait for the same, is the matter of its place.
 */
export class WaitingTask implements Cancellable {
  readonly name: string;
  readonly request: AcquireRequest;
  /** `undefined`: a single question was refused. */
  readonly outcome: Promise<HeldClaim | undefined>;
  /** It has given up, and only finds out what to tell its caller; or it waits no more. */
  isLeaving = false;
  readonly #connection: Connection;
  readonly #place: WaitingPlace;
  readonly #startMs = nowMs();
  readonly #deadlineMs: number;
  readonly #offAbort: (() => void) | undefined;
  #resolve: (outcome: HeldClaim | undefined) => void = () => {};
  #reject: (error: unknown) => void = () => {};
  #timer: NodeJS.Timeout | undefined;
  #toldSlow = false;

  constructor(connection: Connection, request: AcquireRequest, place: WaitingPlace) {
    this.name = request.name;
    this.request = request;
    this.#connection = connection;
    this.#place = place;
    this.#deadlineMs = this.#startMs + request.waitMs;
    this.outcome = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { signal } = request;
    this.#offAbort = signal === undefined ? undefined : onAbort(signal, () => this.cancel(signal.reason));
    connection.waits.add(this);
  }

  /** Whether a grant is still of use to it: its own listener may not have heard of an abort yet. `atMs` is -Infinity for the answer to a first question: it is heard out. */
  wantsGrant(atMs: number): boolean {
    return !this.isLeaving && atMs < this.#deadlineMs && this.request.signal?.aborted !== true;
  }

  /** It was not granted at once: from now on it looks at the time. */
  wait(): void {
    if (this.isLeaving || this.#timer !== undefined) return;
    const atMs = nowMs();
    const { asking } = this.#place;
    if (atMs >= this.#deadlineMs) {
      // A short wait must not fail on a free lock, nor by an outage that may be over: the next answer calls this again.
      if (asking?.hasHeard(this.#startMs) !== false) void this.#giveUp(asking);
      return;
    }
    if (asking?.isUnbearable(this.#startMs)) {
      this.#endBy(this.#outage(asking));
      return;
    }
    const slowAtMs = this.#startMs + this.request.ttlMs;
    if (!this.#toldSlow && atMs >= slowAtMs) {
      this.#toldSlow = true;
      const waitedMs = elapsedMs(this.#startMs);
      this.#connection.events.emit({
        type: "slow-wait",
        ...this.#connection.about(this.request),
        waitedMs,
      });
    }
    // A ref'd timer: a process in the middle of a wait must not exit.
    const untilMs = this.#toldSlow ? this.#deadlineMs : Math.min(this.#deadlineMs, slowAtMs);
    this.#timer = startTimer(() => {
      this.#timer = undefined;
      this.wait();
    }, untilMs - atMs);
  }

  /** The engine has failed to answer. */
  askFailed(): void {
    const { asking } = this.#place;
    if (this.#timer === undefined) this.wait();
    else if (!this.isLeaving && asking?.isUnbearable(this.#startMs)) {
      this.#endBy(this.#outage(asking));
    }
  }

  grant(heldClaim: HeldClaim): void {
    this.#settle();
    this.#resolve(heldClaim);
  }

  refuse(): void {
    this.#settle();
    this.#resolve(undefined);
  }

  fail(error: unknown): void {
    this.#settle();
    this.#reject(error);
  }

  /** A caller that has cancelled goes on at once; its claim is withdrawn behind it. */
  cancel(error: unknown): void {
    if (!this.isLeaving) this.#endBy(error);
  }

  #endBy(error: unknown): void {
    this.#settle();
    const withdrawal = this.#place.leave(this);
    if (withdrawal !== undefined) this.#connection.inBackground(withdrawal);
    this.#reject(error);
  }

  #settle(): void {
    this.isLeaving = true;
    this.#offAbort?.();
    if (this.#timer !== undefined) stopTimer(this.#timer);
    this.#connection.waits.delete(this);
  }

  #outage(asking: Asking): LockError {
    const { sinceMs, failure } = asking.outage as NonNullable<Asking["outage"]>;
    return outage(this.name, nowMs() - Math.max(sinceMs, this.#startMs), failure);
  }

  async #giveUp(asking: Asking | undefined): Promise<void> {
    this.isLeaving = true;
    const waitedMs = elapsedMs(this.#startMs);
    if (asking?.outage !== undefined) {
      this.#endBy(this.#outage(asking));
      return;
    }
    let error: LockError;
    try {
      const ticket = asking?.claim.ticket;
      error = await timeoutError(this.#connection, this.name, waitedMs, ticket, this.#place.positionOf(this));
    } catch (failure) {
      // It was asleep when the engine went away: that is an outage, too, and not contention.
      const cause = asLockError(failure, `could not look at "${this.name}"`);
      const sinceMs = asking?.answeredMs ?? this.#startMs;
      this.#endBy(outage(this.name, nowMs() - Math.max(sinceMs, this.#startMs), cause));
      return;
    }
    this.#connection.events.emit({ type: "timeout", ...this.#connection.about(this.request), waitedMs });
    // When the caller hears of it, the claim is gone.
    await this.#place.leave(this);
    this.#settle();
    this.#reject(error);
  }
}
