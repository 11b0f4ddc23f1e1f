import { startTimer } from "../../core/timer.js";

/** Work for later, unless the connection is closed before. Does not keep the process alive. */
export class Timers {
  readonly #running = new Set<NodeJS.Timeout>();
  #closed = false;

  later(ms: number, work: () => void): void {
    if (this.#closed) return;
    const run = () => {
      this.#running.delete(timer);
      work();
    };
    const timer = startTimer(run, ms).unref();
    this.#running.add(timer);
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#running) clearTimeout(timer);
    this.#running.clear();
  }
}
