import { startTimer, stopTimer } from "./timer.js";

/** Even if no ring arrives and nothing is about to expire, somebody asks again after this. */
export const POLL_MS = 6_000;
/** An engine may say "in 0 ms" again and again; it is not asked more often than this. */
const SHORTEST_MS = 5;

interface Lookable {
  readonly name: string;
  rung(): void;
}

interface Post {
  readonly waiters: Set<Lookable>;
  timer: NodeJS.Timeout | undefined;
}

/**
 * Somebody has to ask when a claim ahead runs out, because a crashed holder rings nobody. For all waiters
 * of this process at one name that is one of them, the first: the engine's answer to it lets whoever is
 * next in, wherever that one waits.
 */
export class Lookout {
  readonly #posts = new Map<string, Post>();

  enter(waiter: Lookable): void {
    const post = this.#posts.get(waiter.name);
    if (post !== undefined) post.waiters.add(waiter);
    else this.#posts.set(waiter.name, { waiters: new Set([waiter]), timer: undefined });
  }

  leave(waiter: Lookable): void {
    const post = this.#posts.get(waiter.name);
    if (post === undefined || !post.waiters.delete(waiter) || post.waiters.size > 0) return;
    stopTimer(post.timer);
    this.#posts.delete(waiter.name);
  }

  /** The engine's newest word on when something may change by itself. */
  expect(name: string, changeInMs: number): void {
    const post = this.#posts.get(name);
    if (post === undefined) return;
    const delayMs = Math.min(Math.max(changeInMs + 1, SHORTEST_MS), POLL_MS);
    stopTimer(post.timer);
    // Each waiter has a timer of its own that keeps the process alive.
    post.timer = startTimer(() => this.#look(post), delayMs).unref();
  }

  #look(post: Post): void {
    // Its answer sets the next time; should it get none, somebody looks again all the same.
    post.timer = startTimer(() => this.#look(post), POLL_MS).unref();
    const [first] = post.waiters;
    first?.rung();
  }
}
