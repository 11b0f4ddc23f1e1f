import type {
  Answer,
  Backend,
  ClaimRequest,
  Ending,
  Force,
  Gone,
  Notification,
  Notify,
  Renewal,
  RenewRequest,
  ResourceRecord,
  Traits,
  Unwatch,
} from "../../core/backend.js";
import { breathe } from "../../core/breath.js";
import type { CellStore } from "../../core/cells.js";
import { nowMs } from "../../core/clock.js";
import { MemoryCells } from "./cells.js";
import { Resource, type StoredClaim } from "./resource.js";

const TRAITS: Traits = {
  engine: "memory",
  reach: "process",
  fencing: true,
  queueing: true,
  notifications: true,
  ttl: "claim",
  expiryGranularityMs: 20,
  caveats: ["Locks are shared within this process only, and gone with it."],
};

/** How long a claim that was forced away can still learn why. */
const FORCED_KEPT_MS = 60_000;

/** What all memory backends of one name share. */
class Store {
  readonly resources = new Map<string, Resource>();
  readonly watchers = new Map<string, Notify>();
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

const shared = new Map<string, Store>();

/** The locks of this process. Backends of the same name meet; one without a name stands alone. */
export function memory(name?: string): Backend {
  if (name === undefined || name === "") return new MemoryBackend(new Store());
  const store = shared.get(name) ?? new Store();
  shared.set(name, store);
  return new MemoryBackend(store);
}

class MemoryBackend implements Backend {
  readonly traits = TRAITS;
  readonly cells: CellStore;
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
    this.cells = store.cells;
  }

  async claim(request: ClaimRequest): Promise<Answer> {
    const breath = breathe();
    if (breath !== undefined) await breath;
    this.#forgetOne();
    return this.#at(request.name, (resource, atMs) =>
      resource.claim(
        request,
        atMs,
        () => this.#store.nextTicket(),
        () => this.#gone(request.id),
      ),
    );
  }

  async renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return claims.map(({ name, id, ticket, ttlMs }) =>
      this.#at(name, (resource, atMs) => resource.renew(id, ticket, ttlMs, atMs) ?? this.#gone(id)),
    );
  }

  async release(claim: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean> {
    return this.#at(claim.name, (resource, atMs) => {
      const found = resource.find(claim.id);
      if (found === undefined) return false;
      const released = resource.release(found, ending !== undefined, atMs);
      // Who is next learns by asking that the wait will be shorter than it was told.
      if (found.left) this.#ring(resource.claims[resource.granted().length]?.id);
      if (typeof ending === "object") this.#tellForced(found, ending, atMs);
      return released;
    });
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    const { resources } = this.#store;
    const names =
      "name" in query ? [query.name] : [...resources.keys()].filter((name) => name.startsWith(query.prefix));
    for (const name of names.sort()) {
      const record = this.#at(name, (resource, atMs) => ({
        name,
        capacity: resource.capacity,
        claims: resource.records(atMs).slice(0, "limit" in query ? query.limit : undefined),
      }));
      if (record.claims.length > 0) yield record;
    }
  }

  watch(claim: { readonly name: string; readonly id: string }, ring: Notify): Unwatch {
    this.#store.watchers.set(claim.id, ring);
    return () => void this.#store.watchers.delete(claim.id);
  }

  async close(): Promise<void> {
    // Others of the same name may still use the store.
  }

  /** One atomic step: forget what has expired, act, and ring whom that let in. */
  #at<T>(name: string, act: (resource: Resource, atMs: number) => T): T {
    const { resources } = this.#store;
    const atMs = nowMs();
    const resource = resources.get(name) ?? new Resource(name);
    resource.dropExpired(atMs);
    const result = act(resource, atMs);
    for (const claim of resource.granted()) {
      if (claim.grantedAtMs !== undefined) continue;
      // Where the grant starts a clock of its own, the claim itself has to ask for it.
      if (!claim.fixed && claim.minHoldMs === 0) claim.grantedAtMs = atMs;
      this.#ring(claim.id, { state: "granted", ticket: claim.ticket });
    }
    if (resource.claims.length > 0) resources.set(name, resource);
    else resources.delete(name);
    return result;
  }

  /** A name whose claims have expired is not touched by anybody: each claim looks at one that was made long ago. */
  #forgetOne(): void {
    const { resources } = this.#store;
    const [name] = resources.keys();
    if (name === undefined) return;
    this.#at(name, () => undefined);
    const resource = resources.get(name);
    if (resource === undefined) return;
    // To the end of the line of names.
    resources.delete(name);
    resources.set(name, resource);
  }

  #ring(id: string | undefined, news?: Notification): void {
    if (id !== undefined) queueMicrotask(() => this.#store.watchers.get(id)?.(news));
  }

  #tellForced(claim: StoredClaim, force: Force, atMs: number): void {
    const { forced } = this.#store;
    for (const [id, { untilMs }] of forced) if (untilMs <= atMs) forced.delete(id);
    const gone: Gone = { state: "gone", loss: "forced", ...force };
    forced.set(claim.id, { gone, untilMs: atMs + FORCED_KEPT_MS });
    this.#ring(claim.id, { ...gone, ticket: claim.ticket });
  }

  #gone(id: string): Gone {
    return this.#store.forced.get(id)?.gone ?? { state: "gone", loss: "taken" };
  }
}
