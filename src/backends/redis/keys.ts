import { lockKey } from "../../clients/redis/client.js";

/** The keys of one lock. They share a hash tag, so that they live on one slot of a cluster. */
export interface LockKeys {
  readonly head: string;
  /** Head, claims, queue: all that an ordinary claim or release touches. */
  readonly usual: readonly string[];
  /** The usual ones, and what an operator took away. */
  readonly all: readonly string[];
}

const MOST_KEPT = 1_000;

/** The keys of locks by name. A program uses few names again and again: what they become is kept. */
export class LockKeyCache {
  readonly #prefix: string;
  readonly #kept = new Map<string, LockKeys>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  of(name: string): LockKeys {
    let keys = this.#kept.get(name);
    if (keys === undefined) {
      if (this.#kept.size >= MOST_KEPT) this.#kept.clear();
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
