import { steadyMs } from "../core/clock.js";

/** A server ignores a floor that is farther ahead of its own clock than this: one hour. */
export const FLOOR_BOUND_US = 3_600_000_000;

/** What our clock adds to the estimate per millisecond: 0.1 % less than the µs that have passed. */
const US_PER_MS = 999;

/** Rounded down to 10 ms, because a number that stays the same for a while costs far less to write and to read. */
const STEP_US = 10_000;

/**
 * The lowest ticket that a server should draw for this process, for engines that draw
 * `max(last ticket of the name + 1, server's clock in µs)`. Sent with each new claim, it keeps tokens growing when
 * the server's clock was set back, or when a new primary has lost the last tickets and its clock is behind.
 *
 * It is an estimate of the server's clock: the highest ticket seen, plus the time since then by our own clock. So
 * it also covers names that this process never asked for. It is never ahead of the clock that it estimates: an
 * answer takes time, a paused process sees it late, our clock stands still while the machine sleeps, and 0.1 % of
 * the time is left out because two clocks may run at different speeds.
 */
export class TicketFloor {
  /**
   * The estimate, taken back to the zero of our clock. All estimates rise at the same speed, so the higher of two
   * stays the higher one, and one number is enough. A number is exact for µs until the year 2255.
   */
  #atZeroUs = -Infinity;

  /** The ticket of a new claim; not the old ticket of a claim that is asked about again. */
  observe(ticket: bigint, atMs = steadyMs()): void {
    const atZeroUs = Number(ticket) - atMs * US_PER_MS;
    // The server ignores an estimate that is so far ahead: its clock was wrong before, or ours has jumped.
    if (atZeroUs > this.#atZeroUs || this.#atZeroUs - atZeroUs > FLOOR_BOUND_US) this.#atZeroUs = atZeroUs;
  }

  /** 0 before the first ticket. */
  lowest(atMs = steadyMs()): number {
    return Math.max(0, Math.floor((this.#atZeroUs + atMs * US_PER_MS) / STEP_US) * STEP_US);
  }
}
