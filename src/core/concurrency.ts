import { onAbort, startTimer, stopTimer } from "./timer.js";

/** One at a time inside this process, first come, first served. */
export class FifoMutex {
  #busy = false;
  readonly #queue = new Set<() => void>();

  /**
   * Resolves to a function that ends the turn, or to `undefined` if the wait was too short. A caller that has
   * to wait also stops when what it waits for is lost.
   */
  async take(
    waitMs: number,
    signal: AbortSignal | undefined,
    lost: () => AbortSignal,
  ): Promise<(() => void) | undefined> {
    signal?.throwIfAborted();
    if (this.#busy && (waitMs === 0 || !(await this.#wait(waitMs, [lost(), ...(signal ? [signal] : [])])))) {
      return undefined;
    }
    this.#busy = true;
    return () => this.#next();
  }

  #wait(waitMs: number, signals: readonly AbortSignal[]): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const end = () => {
        stopTimer(timer);
        for (const off of offs) off();
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
      const timer = startTimer(onTime, waitMs);
      const offs = signals.map((signal) =>
        onAbort(signal, () => {
          end();
          reject(signal.reason);
        }),
      );
      this.#queue.add(onTurn);
    });
  }

  #next(): void {
    // The turn is handed over directly, so that no later caller overtakes.
    const [onTurn] = this.#queue;
    if (onTurn === undefined) this.#busy = false;
    else onTurn();
  }
}

/** Work that callers share: one that comes while it is under way gets its outcome. */
export class SingleFlight<T> {
  #underWay: Promise<T> | undefined;

  /** For a caller that only waits for what has been begun. */
  get underWay(): Promise<T> | undefined {
    return this.#underWay;
  }

  /** Begins the work, unless it is under way already. */
  run(work: () => Promise<T>): Promise<T> {
    this.#underWay ??= work().finally(() => {
      this.#underWay = undefined;
    });
    return this.#underWay;
  }
}

/**
 * For work whose outcome must not be older than its caller: a caller that comes while it is under way waits for the
 * next run, which begins when this one ends, and is shared by all that came meanwhile.
 */
export class FreshFlight<T> {
  #underWay: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  /** Nothing is under way, and nothing waits. */
  get isIdle(): boolean {
    return this.#underWay === undefined;
  }

  /** Begins the work now, or when what is under way has ended. */
  run(work: () => Promise<T>): Promise<T> {
    if (this.#underWay === undefined) return this.#begin(work);
    const begin = () => this.#begin(work);
    this.#next ??= this.#underWay.then(begin, begin);
    return this.#next;
  }

  #begin(work: () => Promise<T>): Promise<T> {
    this.#next = undefined;
    const begun = work().finally(() => {
      if (this.#underWay === begun) this.#underWay = undefined;
    });
    this.#underWay = begun;
    return begun;
  }
}
