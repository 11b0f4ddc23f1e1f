import type {
  Answer,
  Backend,
  CellChange,
  CellStore,
  ClaimRequest,
  Ending,
  Force,
  Gone,
  Notify,
  Renewal,
  RenewRequest,
  ResourceRecord,
  StoredCell,
  Traits,
  Unwatch,
} from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { ShortLivedMap } from "../../core/short-lived.js";
import { yieldTurn } from "../../core/timer.js";
import { Queue, type ToNotify } from "../../engine-kit/queue.js";

const TRAITS: Traits = {
  engine: "memory",
  reach: "process",
  fencing: true,
  queueing: true,
  notifications: true,
  tellsHolder: true,
  ttl: "claim",
  expiryGranularityMs: 20,
  caveats: ["Locks are shared within this process only, and gone with it."],
};

/** How long a claim that was forced away can still learn why. */
const FORCED_KEPT_MS = 60_000;

/**
 * The locks of this process, for `createLocks`. Backends of the same name meet; one without a name stands alone. They end
 * with the process.
 *
 * @example
 * ```ts
 * import { createLocks } from "locktender";
 * import { memory } from "locktender/memory";
 *
 * const locks = createLocks(memory());
 * await locks.mutex("report").run(() => work());
 * await locks.close();
 * ```
 */
export function memory(name?: string): Backend {
  if (name === undefined || name === "") return new MemoryBackend(new MemoryStore());
  const store = stores.get(name) ?? new MemoryStore();
  stores.set(name, store);
  return new MemoryBackend(store);
}

class MemoryBackend implements Backend {
  readonly traits = TRAITS;
  readonly cells: CellStore;
  readonly #store: MemoryStore;

  constructor(store: MemoryStore) {
    this.#store = store;
    this.cells = store.cells;
  }

  async claim(request: ClaimRequest): Promise<Answer> {
    const nextTurn = yieldTurn();
    if (nextTurn !== undefined) await nextTurn;
    this.#forgetOne();
    return this.#at(request.name, (queue, atMs, notify) =>
      queue.claim(
        request,
        atMs,
        notify,
        () => this.#store.nextTicket(),
        () => this.#gone(request.id),
      ),
    );
  }

  async renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return claims.map(({ name, id, ticket, ttlMs }) =>
      this.#at(name, (queue, atMs) => queue.renew(id, ticket, ttlMs, atMs) ?? this.#gone(id)),
    );
  }

  async release(
    { name, id }: { readonly name: string; readonly id: string },
    ending?: Ending,
  ): Promise<boolean> {
    const force = typeof ending === "object" ? ending : undefined;
    return this.#at(name, (queue, atMs, notify) => {
      const released = queue.release(id, ending !== undefined, atMs, notify, force);
      if (released && force !== undefined) this.#rememberForced(id, force, atMs);
      return released;
    });
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    const { queues } = this.#store;
    const names =
      "name" in query ? [query.name] : [...queues.keys()].filter((name) => name.startsWith(query.prefix));
    for (const name of names.sort()) {
      const record = this.#at(name, (queue, atMs) => ({
        name,
        capacity: queue.capacity,
        claims: queue.records(atMs).slice(0, "limit" in query ? query.limit : undefined),
      }));
      if (record.claims.length > 0) yield record;
    }
  }

  watch(claim: { readonly name: string; readonly id: string }, notify: Notify): Unwatch {
    this.#store.watchers.set(claim.id, notify);
    return () => void this.#store.watchers.delete(claim.id);
  }

  async close(): Promise<void> {
    // Others of the same name may still use the store.
  }

  #at<T>(name: string, act: (queue: Queue, atMs: number, notify: (to: ToNotify) => void) => T): T {
    const { queues } = this.#store;
    const atMs = nowMs();
    const queue = queues.get(name) ?? new Queue(name);
    const { result, notify } = queue.step(atMs, (tell) => act(queue, atMs, tell));
    for (const { id, notification } of notify)
      queueMicrotask(() => this.#store.watchers.get(id)?.(notification));
    if (queue.claims.length > 0) queues.set(name, queue);
    else queues.delete(name);
    return result;
  }

  /** A name whose claims have expired is not asked for again: each claim looks at one that was made long ago. */
  #forgetOne(): void {
    const { queues } = this.#store;
    const [name] = queues.keys();
    if (name === undefined) return;
    this.#at(name, () => undefined);
    const queue = queues.get(name);
    if (queue === undefined) return;
    // To the end of the names.
    queues.delete(name);
    queues.set(name, queue);
  }

  #rememberForced(id: string, force: Force, atMs: number): void {
    const { forced } = this.#store;
    for (const [old, { untilMs }] of forced) if (untilMs <= atMs) forced.delete(old);
    forced.set(id, { gone: { state: "gone", loss: "forced", ...force }, untilMs: atMs + FORCED_KEPT_MS });
  }

  #gone(id: string): Gone {
    return this.#store.forced.get(id)?.gone ?? { state: "gone", loss: "taken" };
  }
}

/** How many are looked at for each that is written: of those that are over, no more stay than there are others. */
const LOOKS_PER_WRITE = 2;

/** The cells of one store. A write forgets some of those that are over. */
class MemoryCells implements CellStore {
  readonly #cells = new Map<string, StoredCell & { readonly untilMs: number }>();
  readonly #nextVersion: () => bigint;

  constructor(nextVersion: () => bigint) {
    this.#nextVersion = nextVersion;
  }

  async read(name: string): Promise<StoredCell | undefined> {
    return this.#live(name);
  }

  async write(name: string, { text, ifVersion, keepMs }: CellChange): Promise<bigint | undefined> {
    for (let looks = 0; looks < LOOKS_PER_WRITE; looks++) this.#forgetOne();
    const found = this.#live(name)?.version ?? null;
    if (ifVersion !== undefined && ifVersion !== found) return undefined;
    const version = this.#nextVersion();
    this.#cells.delete(name);
    if (text !== undefined) this.#cells.set(name, { text, version, untilMs: nowMs() + (keepMs ?? Infinity) });
    return version;
  }

  #live(name: string): StoredCell | undefined {
    const cell = this.#cells.get(name);
    return cell === undefined || cell.untilMs <= nowMs() ? undefined : cell;
  }

  /** Looks at the cell whose last look is the longest ago, and puts it to the end of them if it is needed. */
  #forgetOne(): void {
    const [oldest] = this.#cells;
    if (oldest === undefined) return;
    const [name, cell] = oldest;
    this.#cells.delete(name);
    if (cell.untilMs > nowMs()) this.#cells.set(name, cell);
  }
}

/** What all memory backends of one name share. */
class MemoryStore {
  readonly queues = new ShortLivedMap<string, Queue>();
  readonly watchers = new ShortLivedMap<string, Notify>();
  readonly forced = new Map<string, { readonly gone: Gone; readonly untilMs: number }>();
  readonly cells = new MemoryCells(() => this.nextTicket());
  #lastTicket = 0n;

  /** Never lower than the wall clock, so tokens keep growing when a process starts anew. */
  nextTicket(): bigint {
    const floor = BigInt(Date.now()) * 1000n;
    this.#lastTicket += 1n;
    if (this.#lastTicket < floor) this.#lastTicket = floor;
    return this.#lastTicket;
  }
}

/** Those with a name. Exported for tests. @internal */
export const stores = new Map<string, MemoryStore>();
