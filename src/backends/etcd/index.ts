import type {
  Answer,
  Backend,
  ClaimRequest,
  Ending,
  Notify,
  Renewal,
  RenewRequest,
  ResourceRecord,
  Traits,
  Unwatch,
} from "../../core/backend.js";
import type { CellStore } from "../../core/cells.js";
import { installed } from "../../core/installed.js";
import { tlsCaveats } from "../../core/tls.js";
import { EtcdCells } from "./cells.js";
import { Claiming } from "./claiming.js";
import { Desk } from "./desk.js";
import { readRecord, readRecords } from "./listing.js";
import { type EtcdOptions, type EtcdSettings, readEtcdOptions } from "./options.js";
import { Renewing } from "./renewing.js";

export type { EtcdOptions } from "./options.js";

const TRAITS: Traits = {
  engine: "etcd",
  reach: "network",
  fencing: true,
  queueing: true,
  notifications: true,
  ttl: "session",
  expiryGranularityMs: 2_000,
  caveats: [
    "Times to live are whole seconds, and at least one and a half election timeouts of the servers.",
    "A new leader extends all leases, so after an election a dead holder may keep its lock for longer than its ttl.",
  ],
};

/** Locks on etcd, in the layout of its own clients. */
export function etcd(options: EtcdOptions): Backend {
  return new EtcdBackend(readEtcdOptions(options));
}

class EtcdBackend implements Backend {
  readonly traits: Traits;
  readonly cells: CellStore;
  readonly #desk: Desk;
  readonly #claiming: Claiming;
  readonly #renewing: Renewing;

  constructor(settings: EtcdSettings) {
    this.traits = { ...TRAITS, caveats: [...TRAITS.caveats, ...tlsCaveats(settings.tls)] };
    this.#desk = new Desk(settings);
    this.#claiming = new Claiming(this.#desk);
    this.#renewing = new Renewing(this.#desk);
    this.cells = new EtcdCells(this.#desk.rpc, this.#desk.root);
  }

  get client(): string {
    return installed("@grpc/grpc-js");
  }

  async claim(request: ClaimRequest): Promise<Answer> {
    const { id, ticket } = request;
    const place = this.#desk.places.get(id);
    const known = place?.ticket !== undefined && !place.left;
    if (known && (ticket === undefined || ticket === place.ticket)) return this.#claiming.ask(request, place);
    if (known || place?.left || ticket !== undefined) return this.#desk.forcing.goneOf(id);
    return this.#claiming.enter(request);
  }

  renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return this.#renewing.renew(claims);
  }

  async release(
    { name, id }: { readonly name: string; readonly id: string },
    ending?: Ending,
  ): Promise<boolean> {
    if (typeof ending === "object") return this.#desk.forcing.takeAway(name, id, ending);
    const place = this.#desk.places.get(id);
    if (place === undefined || (place.left && ending === undefined)) return false;
    return this.#desk.leaving.release(place, ending === "unused");
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    const { rpc, root } = this.#desk;
    if ("prefix" in query) {
      yield* readRecords(rpc, root, query.prefix);
      return;
    }
    const record = await readRecord(rpc, root, query.name, query.limit);
    if (record !== undefined) yield record;
  }

  watch({ id }: { readonly name: string; readonly id: string }, ring: Notify): Unwatch {
    const { rings } = this.#desk;
    rings.set(id, ring);
    return () => void rings.delete(id);
  }

  async close(): Promise<void> {
    const { rpc, watcher, sessions, places, leaving } = this.#desk;
    leaving.close();
    watcher.close();
    const used = new Set([...places.values()].map(({ session }) => session));
    await sessions.close((session) => used.has(session));
    rpc.close();
  }
}
