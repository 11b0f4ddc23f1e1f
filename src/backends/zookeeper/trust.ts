import { lookForSleepMs, type Sent } from "../../core/clock.js";

/**
 * Until when a session may be trusted to be alive. Servers answer pings and reads by themselves, also when they
 * are cut off from their leader, so only an acknowledged write counts, from the moment of its sending. The leader
 * itself hears of a session from the server that it is connected to, some moments later, in the answers to its
 * own pings (every half tick; a session lasts at least two ticks). What it is known to have heard is therefore
 * what was sent before that write: at most a third of the timeout earlier, while something is sent that often.
 * So two thirds of the timeout are safe.
 */
export class Trust {
  readonly #timeoutMs: number;
  #deadlineMs = -Infinity;
  /** How long the machine had slept when the write that counts was sent. */
  #sleptMs = 0;
  #lastSentMs = -Infinity;
  /** After a longer silence of ours, less is known for a moment. */
  #silence: { readonly fromMs: number; readonly toMs: number; readonly limitMs: number } | undefined;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** On our monotonic clock, which stands still while the machine sleeps: that brings it nearer. */
  get deadlineMs(): number {
    return this.#deadlineMs - (lookForSleepMs() - this.#sleptMs);
  }

  /** The leader has made the session, or taken it over to another server. */
  attached(sentMs: number): void {
    this.#lastSentMs = sentMs;
    this.#silence = undefined;
  }

  /** Anything is sent. */
  sending(atMs: number): void {
    const timeoutMs = this.#timeoutMs;
    if (atMs - this.#lastSentMs > timeoutMs / 3) {
      this.#silence = { fromMs: atMs, toMs: atMs + timeoutMs / 4, limitMs: this.#lastSentMs + timeoutMs };
    }
    this.#lastSentMs = atMs;
  }

  /** A write that was sent then has been acknowledged. */
  proven({ atMs, sleptMs }: Sent): void {
    const silence = this.#silence;
    const recent = silence !== undefined && atMs >= silence.fromMs && atMs < silence.toMs;
    const longestMs = atMs + (this.#timeoutMs * 2) / 3;
    const untilMs = recent ? Math.min(longestMs, silence.limitMs) : longestMs;
    if (untilMs + sleptMs <= this.#deadlineMs + this.#sleptMs) return;
    this.#deadlineMs = untilMs;
    this.#sleptMs = sleptMs;
  }
}
