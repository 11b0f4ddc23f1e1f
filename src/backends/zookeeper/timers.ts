import { startTimer } from "../../core/timer.js";

/** What is to be done later, unless the connection is closed before. Does not keep the process alive. */
export class Timers {
  readonly #running = new Set<NodeJS.Timeout>();

  later(ms: number, act: () => void): void {
    const run = () => {
      this.#running.delete(timer);
      act();
    };
    const timer = startTimer(run, ms).unref();
    this.#running.add(timer);
  }

  clear(): void {
    for (const timer of this.#running) clearTimeout(timer);
    this.#running.clear();
  }
}
