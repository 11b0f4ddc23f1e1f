import type {
  Answer,
  Backend,
  CellStore,
  ClaimRequest,
  Ending,
  Notify,
  Renewal,
  RenewRequest,
  ResourceRecord,
  Traits,
  Unwatch,
} from "../../core/backend.js";
import { installed } from "../../engine-kit/client-library.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import { EtcdCells } from "./cells.js";
import { EtcdDriver } from "./driver.js";
import { readRecord, readRecords } from "./list.js";
import { type EtcdOptions, type EtcdSettings, readEtcdOptions } from "./options.js";

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
  readonly #driver: EtcdDriver;

  constructor(settings: EtcdSettings) {
    this.traits = { ...TRAITS, caveats: [...TRAITS.caveats, ...tlsCaveats(settings.tls)] };
    this.#driver = new EtcdDriver(settings);
    this.cells = new EtcdCells(this.#driver.rpc, this.#driver.root);
  }

  get client(): string {
    return installed("@grpc/grpc-js");
  }

  claim(request: ClaimRequest): Promise<Answer> {
    return this.#driver.queue.claim(request);
  }

  renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return this.#driver.renew(claims);
  }

  release({ name, id }: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean> {
    const { queue, forces } = this.#driver;
    return typeof ending === "object" ? forces.takeAway(name, id, ending) : queue.release(id, ending);
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    const { rpc, root } = this.#driver;
    if ("prefix" in query) {
      yield* readRecords(rpc, root, query.prefix);
      return;
    }
    const record = await readRecord(rpc, root, query.name, query.limit);
    if (record !== undefined) yield record;
  }

  watch({ id }: { readonly name: string; readonly id: string }, notify: Notify): Unwatch {
    return this.#driver.queue.claims.watch(id, notify);
  }

  close(): Promise<void> {
    return this.#driver.close();
  }
}
