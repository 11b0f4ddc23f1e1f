import { lookForSleepMs, nowMs, type Sent } from "../../core/clock.js";

/**
 * Until when a session may be trusted to be alive. Servers answer pings and reads by themselves, also when they
 * are cut off from their leader, so only an acknowledged write counts, from the moment of its sending. And the
 * leader hears of a session only from the server that it is connected to, in the answers to its own pings: every
 * half tick, and a session lasts at least two ticks. So what it surely has heard of is what that server had
 * answered a quarter of the timeout before the write was sent, and from the sending of that the session lasts for
 * its timeout. The wire sees to it that this is at most another twelfth earlier, so two thirds are left.
 */
export class SessionTrust {
  readonly #timeoutMs: number;
  #deadlineMs = -Infinity;
  /** How long the machine had slept when the write that counts was sent. */
  #sleptMs = 0;
  /** What the leader itself was asked: to make the session, or to take it over to another server. */
  #attached: Sent = { atMs: -Infinity, sleptMs: 0 };
  /** What was answered since then, and when, the oldest first. */
  readonly #answered: { readonly sent: Sent; readonly atMs: number }[] = [];

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** On our monotonic clock, which stands still while the machine sleeps: that brings it nearer. */
  get deadlineMs(): number {
    return this.#deadlineMs - (lookForSleepMs() - this.#sleptMs);
  }

  attached(sent: Sent): void {
    this.#attached = sent;
    this.#answered.length = 0;
  }

  /** Anything that was sent then has been answered. */
  answered(sent: Sent, atMs = nowMs()): void {
    const answered = this.#answered;
    // Of a busy connection not all of it is remembered.
    if (sent.atMs - (answered.at(-1)?.sent.atMs ?? -Infinity) < this.#timeoutMs / 100) return;
    answered.push({ sent, atMs });
    while ((answered[0]?.sent.atMs ?? Infinity) < atMs - this.#timeoutMs) answered.shift();
  }

  /** A write that was sent then has been acknowledged. */
  proven({ atMs, sleptMs }: Sent): void {
    const heardByMs = atMs - this.#timeoutMs / 4;
    const heard = this.#answered.findLast((one) => one.atMs <= heardByMs)?.sent ?? this.#attached;
    const livesUntilMs = heard.atMs + this.#timeoutMs - (sleptMs - heard.sleptMs);
    const untilMs = Math.min(atMs + (this.#timeoutMs * 2) / 3, livesUntilMs);
    if (untilMs + sleptMs <= this.#deadlineMs + this.#sleptMs) return;
    this.#deadlineMs = untilMs;
    this.#sleptMs = sleptMs;
  }
}
