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
import { installed } from "../../engine-kit/client-library.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import { EtcdCells } from "./cells.js";
import { Claims } from "./claim.js";
import { EngineState } from "./engine-state.js";
import { readRecord, readRecords } from "./list.js";
import { type EtcdOptions, type EtcdSettings, readEtcdOptions } from "./options.js";
import { Renewals } from "./renew.js";

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
    "Tokens are numbers that the servers count: they go back when the servers are restored from a backup, or start with empty data.",
  ],
};

/** Locks on etcd, in the layout of its own clients. */
export function etcd(options: EtcdOptions): Backend {
  return new EtcdBackend(readEtcdOptions(options));
}

class EtcdBackend implements Backend {
  readonly traits: Traits;
  readonly cells: CellStore;
  readonly #engine: EngineState;
  readonly #claiming: Claims;
  readonly #renewing: Renewals;

  constructor(settings: EtcdSettings) {
    this.traits = { ...TRAITS, caveats: [...TRAITS.caveats, ...tlsCaveats(settings.tls)] };
    this.#engine = new EngineState(settings);
    this.#claiming = new Claims(this.#engine);
    this.#renewing = new Renewals(this.#engine);
    this.cells = new EtcdCells(this.#engine.rpc, this.#engine.root);
  }

  get client(): string {
    return installed("@grpc/grpc-js");
  }

  async claim(request: ClaimRequest): Promise<Answer> {
    const { id, ticket } = request;
    const ownClaim = this.#engine.places.get(id);
    const known = ownClaim?.ticket !== undefined && !ownClaim.left;
    if (known && (ticket === undefined || ticket === ownClaim.ticket))
      return this.#claiming.ask(request, ownClaim);
    if (known || ownClaim?.left || ticket !== undefined) return this.#engine.forcing.goneOf(id);
    return this.#claiming.enter(request);
  }

  renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return this.#renewing.renew(claims);
  }

  async release(
    { name, id }: { readonly name: string; readonly id: string },
    ending?: Ending,
  ): Promise<boolean> {
    if (typeof ending === "object") return this.#engine.forcing.takeAway(name, id, ending);
    const ownClaim = this.#engine.places.get(id);
    if (ownClaim === undefined || (ownClaim.left && ending === undefined)) return false;
    return this.#engine.releases.release(ownClaim, ending === "unused");
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    const { rpc, root } = this.#engine;
    if ("prefix" in query) {
      yield* readRecords(rpc, root, query.prefix);
      return;
    }
    const record = await readRecord(rpc, root, query.name, query.limit);
    if (record !== undefined) yield record;
  }

  watch({ id }: { readonly name: string; readonly id: string }, ring: Notify): Unwatch {
    const { rings } = this.#engine;
    rings.set(id, ring);
    return () => void rings.delete(id);
  }

  async close(): Promise<void> {
    const { rpc, watcher, sessions, places, releases } = this.#engine;
    releases.close();
    watcher.close();
    const used = new Set([...places.values()].map(({ session }) => session));
    await sessions.close((session) => used.has(session));
    rpc.close();
  }
}
