import type { Notify, Unwatch } from "../../core/backend.js";
import { startTimer } from "../../core/timer.js";

/** Who waits behind others of this process is rung when it is its turn; should that fail, it asks by itself. */
export const BEHIND_MS = 6_000;
/** While somebody else holds the lock, it is asked for no more seldom than this: rings may be lost. */
const LONGEST_POLL_MS = 500;
/** Where votes were split, nobody holds the lock, and it is to be had soon. */
const SHORTEST_BACKOFF_MS = 2;
const LONGEST_BACKOFF_MS = 100;
/** All who are rung at once ask at slightly different times, or they would take each other's votes. */
const SPREAD_MS = 3;

type Refused = { readonly held: boolean; readonly free: number; readonly changeInMs: number };

interface Queue {
  /** In the order in which they came. */
  readonly ids: string[];
  /** How often some nodes could be had, but too few, since it was last rung. */
  splits: number;
  /** Why the first one could not ask: the others could not either. */
  failure: unknown;
  timer: NodeJS.Timeout | undefined;
  /** Ends the listening for what others tell of this name. */
  readonly unlisten: Unwatch;
}

/**
 * Those of this process who wait, by name. Nodes keep no queue; but of one process only the first asks, so
 * that what is asked does not grow with those who wait, and tasks of one process are served as they came.
 */
export class LocalQueue {
  readonly #queues = new Map<string, Queue>();
  readonly #rings = new Map<string, Notify>();
  readonly #listen: (name: string, ring: Notify) => Unwatch;

  constructor(listen: (name: string, ring: Notify) => Unwatch) {
    this.#listen = listen;
  }

  watch(name: string, id: string, ring: Notify): Unwatch {
    this.#rings.set(id, ring);
    return () => {
      this.#rings.delete(id);
      this.leave(name, id);
    };
  }

  /**
   * Takes a place at the end, unless it has one. Says whether it is the first; to the others an outage is told
   * that the first one has met, for they would meet it, too, one after the other.
   */
  enter(name: string, id: string): boolean {
    // Whom nobody can ring would be in the way of the others for ever.
    if (!this.#rings.has(id)) return true;
    const queue = this.#queues.get(name);
    if (queue === undefined) {
      this.#queues.set(name, {
        ids: [id],
        splits: 0,
        failure: undefined,
        timer: undefined,
        // Before it asks: who gives the lock back may do so before all nodes have refused.
        unlisten: this.#listen(name, () => this.ring(name, true)),
      });
      return true;
    }
    if (!queue.ids.includes(id)) queue.ids.push(id);
    if (queue.ids[0] === id) return true;
    if (queue.failure !== undefined) throw queue.failure;
    return false;
  }

  /** The first one has, or has not, been answered. */
  answered(name: string, failure?: unknown): void {
    const queue = this.#queues.get(name);
    if (queue === undefined) return;
    const news = failure !== undefined && queue.failure === undefined;
    queue.failure = failure;
    if (news) for (const id of queue.ids.slice(1)) this.#rings.get(id)?.();
  }

  leave(name: string, id: string): void {
    const queue = this.#queues.get(name);
    const at = queue?.ids.indexOf(id) ?? -1;
    if (queue === undefined || at < 0) return;
    queue.ids.splice(at, 1);
    if (queue.ids.length === 0) this.#forget(name, queue);
    else if (at === 0) this.#wake(name, queue, 0);
  }

  /** The first one got it: the next one asks when it may be over, and is rung when it is given back. */
  granted(name: string, id: string, takenMs: number): void {
    const queue = this.#queues.get(name);
    if (queue?.ids[0] !== id) return;
    queue.ids.shift();
    queue.splits = 0;
    if (queue.ids.length === 0) this.#forget(name, queue);
    else this.#wake(name, queue, Math.min(takenMs, LONGEST_POLL_MS));
  }

  /** It may be free now. `shared`: others may have been told the same. */
  ring(name: string, shared: boolean): void {
    const queue = this.#queues.get(name);
    if (queue === undefined) return;
    queue.splits = 0;
    this.#wake(name, queue, shared ? Math.random() * SPREAD_MS : 0);
  }

  /** The first one hears late that a node could be had: it would not have slept for so long. */
  freed(name: string, id: string): void {
    const queue = this.#queues.get(name);
    if (queue?.ids[0] !== id || queue.timer !== undefined) return;
    this.#wake(name, queue, backoffMs(queue.splits++, LONGEST_POLL_MS));
  }

  /**
   * When the first one should ask again, at random: those of other processes who do the same must differ. Where
   * some nodes could be had, the lock is about to be given back, or votes were split; and those nodes do not ring.
   */
  againInMs(name: string, { held, free, changeInMs }: Refused): number {
    const soonestMs = changeInMs + 1 + Math.random() * SPREAD_MS;
    if (held && free === 0) return Math.min(soonestMs, LONGEST_POLL_MS * (0.5 + Math.random() / 2));
    const queue = this.#queues.get(name);
    const splits = queue === undefined ? 0 : queue.splits++;
    return Math.min(soonestMs, backoffMs(splits, held ? LONGEST_POLL_MS : LONGEST_BACKOFF_MS));
  }

  close(): void {
    for (const [name, queue] of [...this.#queues]) this.#forget(name, queue);
    this.#rings.clear();
  }

  #forget(name: string, queue: Queue): void {
    clearTimeout(queue.timer);
    queue.unlisten();
    this.#queues.delete(name);
  }

  #wake(name: string, queue: Queue, delayMs: number): void {
    clearTimeout(queue.timer);
    queue.timer = undefined;
    const ring = () => {
      queue.timer = undefined;
      this.#rings.get(this.#queues.get(name)?.ids[0] ?? "")?.();
    };
    if (delayMs === 0) queueMicrotask(ring);
    else queue.timer = startTimer(ring, delayMs).unref();
  }
}

export function backoffMs(splits: number, longestMs = LONGEST_BACKOFF_MS): number {
  return Math.random() * Math.min(SHORTEST_BACKOFF_MS * 2 ** splits, longestMs);
}
