import { nowMs } from "../core/clock.js";
import { startTimer } from "../core/timer.js";

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

  stop(): void {
    clearTimeout(this.#timer);
  }

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
