import { onAbort } from "./abort.js";
import { LONGEST_TIMER_MS } from "./duration.js";

/** One at a time inside this process, first come, first served. */
export class Turns {
  #busy = false;
  readonly #queue = new Set<() => void>();

  /** Resolves to a function that ends the turn, or to `undefined` if the wait was too short. */
  async take(waitMs: number, signal: AbortSignal | undefined): Promise<(() => void) | undefined> {
    signal?.throwIfAborted();
    if (this.#busy && (waitMs === 0 || !(await this.#wait(waitMs, signal)))) return undefined;
    this.#busy = true;
    return () => this.#next();
  }

  #wait(waitMs: number, signal: AbortSignal | undefined): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        off?.();
        this.#queue.delete(onTurn);
      };
      const onTurn = () => {
        end();
        resolve(true);
      };
      const onTime = () => {
        end();
        resolve(false);
      };
      const timer = setTimeout(onTime, Math.min(waitMs, LONGEST_TIMER_MS));
      const off =
        signal === undefined
          ? undefined
          : onAbort(signal, () => {
              end();
              reject(signal.reason);
            });
      this.#queue.add(onTurn);
    });
  }

  #next(): void {
    // The turn is handed over directly, so that nobody who comes in between overtakes.
    const [onTurn] = this.#queue;
    if (onTurn === undefined) this.#busy = false;
    else onTurn();
  }
}
