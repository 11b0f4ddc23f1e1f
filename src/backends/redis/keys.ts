import { lockKey } from "../../clients/redis/client.js";

/** The keys of one lock. They share a hash tag, so that they live on one slot of a cluster. */
export interface LockKeys {
  readonly head: string;
  /** Head, claims, queue: all that an ordinary claim or release touches. */
  readonly usual: readonly string[];
  /** The usual ones, and what an operator took away. */
  readonly all: readonly string[];
}

/** Few, because each is copied by the garbage collector if it lives for longer than a claim. */
const MOST_KEPT = 100;

/**
 * The keys of locks by name. A program uses few names again and again, or each name for one claim and its release: what
 * they become is kept, and all of it forgotten at times.
 */
export class LockKeyCache {
  readonly #prefix: string;
  #kept = new Map<string, LockKeys>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  of(name: string): LockKeys {
    let keys = this.#kept.get(name);
    if (keys === undefined) {
      // A new one: what is put into a map that was cleared lives for as long as its old table (core/short-lived.ts).
      if (this.#kept.size >= MOST_KEPT) this.#kept = new Map();
      keys = makeKeys(this.#prefix, name);
      this.#kept.set(name, keys);
    }
    return keys;
  }
}

function makeKeys(prefix: string, name: string): LockKeys {
  const head = lockKey(prefix, name);
  const usual = [head, `${head}:claims`, `${head}:queue`];
  return { head, usual, all: [...usual, `${head}:forced`] };
}

/** In the slot of the lock of that name. */
export function cellKey(prefix: string, name: string): string {
  return `${lockKey(prefix, name)}:cell`;
}
