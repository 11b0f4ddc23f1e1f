import type { Notify, Unwatch } from "../../core/backend.js";
import { startTimer } from "../../core/timer.js";

/** A waiter behind others of this process is woken when it is its turn; should that fail, it asks by itself. */
export const BEHIND_MS = 6_000;
/** While another process holds the lock, it is asked for no less often than this: notifications may be lost. */
const LONGEST_POLL_MS = 500;
/** Where votes were split, no claim holds the lock, and it is to be had soon. */
const SHORTEST_BACKOFF_MS = 2;
const LONGEST_BACKOFF_MS = 100;
/** Processes that are notified at once ask at slightly different times, or they would take each other's votes. */
const SPREAD_MS = 3;

type Refused = { readonly held: boolean; readonly free: number; readonly changeInMs: number };

interface Queue {
  /** In the order of their calls. */
  readonly ids: string[];
  /** How often some nodes could be had, but too few, since the last notification. */
  splits: number;
  /** Why the first one could not ask: the others could not either. */
  failure: unknown;
  timer: NodeJS.Timeout | undefined;
  /** Ends the notifications of this name. */
  readonly unlisten: Unwatch;
}

/**
 * The waiters of this process, by name. Nodes keep no queue; but of one process only the first waiter asks, so
 * that the number of requests does not grow with the waiters, and tasks of one process are served in order.
 */
export class LocalQueue {
  readonly #queues = new Map<string, Queue>();
  readonly #watched = new Map<string, Notify>();
  readonly #listen: (name: string, notify: Notify) => Unwatch;

  constructor(listen: (name: string, notify: Notify) => Unwatch) {
    this.#listen = listen;
  }

  watch(name: string, id: string, notify: Notify): Unwatch {
    this.#watched.set(id, notify);
    return () => {
      this.#watched.delete(id);
      this.leave(name, id);
    };
  }

  /**
   * Enters at the end, unless it is in the queue. Says whether it is the first. An outage that the first one has
   * met is told to the others, too: they would meet it one after the other.
   */
  enter(name: string, id: string): boolean {
    // A waiter that cannot be woken would block the others for ever.
    if (!this.#watched.has(id)) return true;
    const queue = this.#queues.get(name);
    if (queue === undefined) {
      this.#queues.set(name, {
        ids: [id],
        splits: 0,
        failure: undefined,
        timer: undefined,
        // Before it asks: the holder may release before all nodes have refused.
        unlisten: this.#listen(name, () => this.wake(name, true)),
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
    const isNew = failure !== undefined && queue.failure === undefined;
    queue.failure = failure;
    if (isNew) for (const id of queue.ids.slice(1)) this.#watched.get(id)?.();
  }

  leave(name: string, id: string): void {
    const queue = this.#queues.get(name);
    const at = queue?.ids.indexOf(id) ?? -1;
    if (queue === undefined || at < 0) return;
    queue.ids.splice(at, 1);
    if (queue.ids.length === 0) this.#forget(name, queue);
    else if (at === 0) this.#wakeFirst(name, queue, 0);
  }

  /** The first one got the lock: the next one asks when that may be over, and is notified of the release. */
  granted(name: string, id: string, takenMs: number): void {
    const queue = this.#queues.get(name);
    if (queue?.ids[0] !== id) return;
    queue.ids.shift();
    queue.splits = 0;
    if (queue.ids.length === 0) this.#forget(name, queue);
    else this.#wakeFirst(name, queue, Math.min(takenMs, LONGEST_POLL_MS));
  }

  /** It may be free now. `shared`: others may have been told the same. */
  wake(name: string, shared: boolean): void {
    const queue = this.#queues.get(name);
    if (queue === undefined) return;
    queue.splits = 0;
    this.#wakeFirst(name, queue, shared ? Math.random() * SPREAD_MS : 0);
  }

  /** The first one learns late that a node could be had: had it known, it would not have slept for so long. */
  freed(name: string, id: string): void {
    const queue = this.#queues.get(name);
    if (queue?.ids[0] !== id || queue.timer !== undefined) return;
    this.#wakeFirst(name, queue, backoffMs(queue.splits++, LONGEST_POLL_MS));
  }

  /**
   * When the first one should ask again, at random: the first waiters of other processes do the same, and must differ.
   * Where some nodes could be had, the lock is about to be released, or votes were split; those nodes do not notify.
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
    this.#watched.clear();
  }

  #forget(name: string, queue: Queue): void {
    clearTimeout(queue.timer);
    queue.unlisten();
    this.#queues.delete(name);
  }

  #wakeFirst(name: string, queue: Queue, delayMs: number): void {
    clearTimeout(queue.timer);
    queue.timer = undefined;
    const notify = () => {
      queue.timer = undefined;
      this.#watched.get(this.#queues.get(name)?.ids[0] ?? "")?.();
    };
    if (delayMs === 0) queueMicrotask(notify);
    else queue.timer = startTimer(notify, delayMs).unref();
  }
}

export function backoffMs(splits: number, longestMs = LONGEST_BACKOFF_MS): number {
  return Math.random() * Math.min(SHORTEST_BACKOFF_MS * 2 ** splits, longestMs);
}
