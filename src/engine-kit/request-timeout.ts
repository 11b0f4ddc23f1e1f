import { nowMs } from "../core/clock.js";
import { ShortLivedSet } from "../core/short-lived.js";
import { startTimer } from "../core/timer.js";

interface Waiting {
  readonly dueMs: number;
  readonly tooLate: () => void;
}

/**
 * Every request settles within the same time, whatever the client library does with it. All of them share
 * one timer: requests end in the order in which their time is up, and nearly all long before it.
 */
export class RequestTimeout {
  readonly timeoutMs: number;
  readonly #waiting = new ShortLivedSet<Waiting>();
  #timer: AnswerTimer | undefined;

  constructor(timeoutMs: number) {
    this.timeoutMs = timeoutMs;
  }

  /**
   * Settles as the work does, or with that error when its time is up. `failed` may try again instead. The time counts
   * from now, or from when the caller asked.
   */
  bound<T>(
    work: Promise<T>,
    failed: (error: unknown) => Error | Promise<T>,
    late: () => Error,
    sinceMs = nowMs(),
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const waiting = { dueMs: sinceMs + this.timeoutMs, tooLate: () => settle(late, resolve, reject) };
      this.#add(waiting);
      Promise.resolve(work).then(
        (value) => {
          this.#remove(waiting);
          resolve(value);
        },
        (error: unknown) => {
          // After its time there is nothing to be done about a failure any more.
          if (this.#remove(waiting)) settle(() => failed(error), resolve, reject);
        },
      );
    });
  }

  #add(waiting: Waiting): void {
    this.#waiting.add(waiting);
    if (this.#timer === undefined) this.#timer = new AnswerTimer(waiting.dueMs - nowMs(), () => this.#look());
    else if (this.#waiting.size === 1) this.#timer.ref();
  }

  /** Says whether it was still waiting. */
  #remove(waiting: Waiting): boolean {
    const wasWaiting = this.#waiting.delete(waiting);
    // The timer stays for the next request, but keeps no process alive.
    if (wasWaiting && this.#waiting.size === 0) this.#timer?.unref();
    return wasWaiting;
  }

  #look(): void {
    this.#timer = undefined;
    for (const waiting of this.#waiting) {
      const restMs = waiting.dueMs - nowMs();
      if (restMs > 0) {
        this.#timer = new AnswerTimer(restMs, () => this.#look());
        return;
      }
      this.#waiting.delete(waiting);
      waiting.tooLate();
    }
  }
}

function settle<T>(
  outcome: () => Error | Promise<T>,
  resolve: (value: Promise<T>) => void,
  reject: (error: unknown) => void,
): void {
  try {
    const instead = outcome();
    if (instead instanceof Promise) resolve(instead);
    else reject(instead);
  } catch (broken) {
    // What is done about a failure may touch the caller's own objects. Thrown in a timer, it would end the process.
    reject(broken);
  }
}

/** So late is a timer of a process that has other things to do, too. */
const USUALLY_LATE_MS = 20;

/**
 * The time that a server has for an answer. While this process is blocked or frozen, answers are not read, and what it
 * meant to send may not even have been sent: so that does not count, up to as much time again.
 */
export class AnswerTimer {
  readonly #due: () => void;
  #timer: NodeJS.Timeout | undefined;
  #spareMs: number;

  constructor(ms: number, due: () => void) {
    this.#due = due;
    this.#spareMs = ms;
    this.#start(ms);
  }

  /** The answer has come, or is not waited for any more. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** It keeps the process alive. */
  ref(): void {
    this.#timer?.ref();
  }

  /** It keeps no process alive. */
  unref(): this {
    this.#timer?.unref();
    return this;
  }

  #start(ms: number): void {
    const dueMs = nowMs() + ms;
    const keepsAlive = this.#timer?.hasRef() ?? true;
    this.#timer = startTimer(() => {
      const lateMs = nowMs() - dueMs;
      const moreMs = Math.min(lateMs, this.#spareMs);
      if (lateMs <= USUALLY_LATE_MS || moreMs <= 0) return this.#due();
      this.#spareMs -= moreMs;
      this.#start(moreMs);
    }, ms);
    if (!keepsAlive) this.#timer.unref();
  }
}

/** Pauses between attempts that fail: the first one, then each twice as long, up to the longest. */
export class Backoff {
  readonly #firstMs: number;
  readonly #longestMs: number;
  #failures = 0;

  constructor(firstMs: number, longestMs: number) {
    this.#firstMs = firstMs;
    this.#longestMs = longestMs;
  }

  /** Another attempt has failed: how long to wait before the next one. */
  failedMs(): number {
    return Math.min(this.#firstMs * 2 ** this.#failures++, this.#longestMs);
  }

  /** An attempt has succeeded. */
  reset(): void {
    this.#failures = 0;
  }
}
