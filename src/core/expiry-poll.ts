import { startTimer, stopTimer } from "./timer.js";

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
 * A crashed holder notifies no waiter, so a waiter has to ask the engine when a claim ahead of it expires. Of all
 * waiters of this process for one name only the first asks: the engine's answer lets the next claim in, in whichever
 * process that claim waits.
 */
export class ExpiryPoll {
  readonly #names = new Map<string, WaitersOfName>();

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
