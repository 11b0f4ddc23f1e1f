import { LONGEST_TIMER_MS } from "../../core/duration.js";

/** What is to be done later, unless the connection is closed before. Does not keep the process alive. */
export class Timers {
  readonly #running = new Set<NodeJS.Timeout>();

  later(ms: number, act: () => void): void {
    const run = () => {
      this.#running.delete(timer);
      act();
    };
    const timer = setTimeout(run, Math.min(Math.ceil(ms), LONGEST_TIMER_MS)).unref();
    this.#running.add(timer);
  }

  clear(): void {
    for (const timer of this.#running) clearTimeout(timer);
    this.#running.clear();
  }
}
