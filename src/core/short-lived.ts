/** So many removals, or twice its size if that is more, and the next addition moves the rest to a new table. */
const MOST_REMOVED = 1_000;

// What comes and goes with every lock is kept in these. A Map or a Set of JavaScript moves to a new table now and then,
// and the table before it keeps a reference to the new one. As soon as one such table has grown old, the young ones
// behind it, and all that was in them, are kept until the whole heap is collected: the garbage collector then copies
// a quarter of all that is allocated. A new Map breaks the chain (docs/adr/0025-hot-path.md).

/** A map whose entries come and go. To remove while it is iterated over is safe; to add is not always seen. */
export class ShortLivedMap<K, V> implements Iterable<[K, V]> {
  #entries = new Map<K, V>();
  #removed = 0;

  get size(): number {
    return this.#entries.size;
  }

  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  has(key: K): boolean {
    return this.#entries.has(key);
  }

  set(key: K, value: V): void {
    if (this.#removed >= MOST_REMOVED && this.#removed >= 2 * this.#entries.size) {
      this.#entries = new Map(this.#entries);
      this.#removed = 0;
    }
    this.#entries.set(key, value);
  }

  delete(key: K): boolean {
    const wasThere = this.#entries.delete(key);
    if (wasThere) this.#removed++;
    return wasThere;
  }

  clear(): void {
    this.#entries = new Map();
    this.#removed = 0;
  }

  keys(): IterableIterator<K> {
    return this.#entries.keys();
  }

  values(): IterableIterator<V> {
    return this.#entries.values();
  }

  [Symbol.iterator](): IterableIterator<[K, V]> {
    return this.#entries.entries();
  }
}

/** A set whose members come and go, under the same conditions. */
export class ShortLivedSet<T> implements Iterable<T> {
  readonly #members = new ShortLivedMap<T, true>();

  get size(): number {
    return this.#members.size;
  }

  has(member: T): boolean {
    return this.#members.has(member);
  }

  add(member: T): void {
    this.#members.set(member, true);
  }

  delete(member: T): boolean {
    return this.#members.delete(member);
  }

  clear(): void {
    this.#members.clear();
  }

  [Symbol.iterator](): IterableIterator<T> {
    return this.#members.keys();
  }
}
