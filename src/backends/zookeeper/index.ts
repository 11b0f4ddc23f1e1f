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
import { nowMs } from "../../core/clock.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import { ZooKeeperCells } from "./cells.js";
import { ZooKeeperDriver } from "./driver.js";
import { againIfExpired } from "./errors.js";
import { forceRelease } from "./force.js";
import { readRecord, readRecords } from "./list.js";
import { readZooKeeperOptions, type ZooKeeperOptions, type ZooKeeperSettings } from "./options.js";

export type { ZooKeeperOptions } from "./options.js";

const TRAITS: Traits = {
  engine: "zookeeper",
  reach: "network",
  fencing: true,
  queueing: true,
  notifications: true,
  ttl: "session",
  expiryGranularityMs: 2_000,
  caveats: [
    "Sessions last from two to twenty ticks of the servers (4 to 40 s by default): shorter times to live are raised to that, longer ones are refused.",
    "A lease is trusted for two thirds of its ttl after a renewal, because a server that is cut off from its leader does not know it.",
    "A new leader gives all sessions their whole time again, so after an election a dead holder may keep its lock for longer than its ttl.",
    "Tokens are numbers that the servers count: they go back when the servers are restored from a backup, or start with empty data.",
  ],
};

/** Locks on ZooKeeper, in the layout of Curator. */
export function zookeeper(options: ZooKeeperOptions): Backend {
  return new ZooKeeperBackend(readZooKeeperOptions(options));
}

class ZooKeeperBackend implements Backend {
  readonly traits: Traits;
  readonly cells: CellStore;
  readonly #driver: ZooKeeperDriver;

  constructor(settings: ZooKeeperSettings) {
    this.traits = { ...TRAITS, caveats: [...TRAITS.caveats, ...tlsCaveats(settings.tls)] };
    this.#driver = new ZooKeeperDriver(settings);
    this.cells = new ZooKeeperCells(this.#driver, settings.acl);
  }

  async claim(request: ClaimRequest): Promise<Answer> {
    const askedMs = nowMs();
    return againIfExpired(() => this.#driver.queue.claim(request, askedMs));
  }

  renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return this.#driver.renew(claims);
  }

  release(claim: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean> {
    const { sessions, root, queue } = this.#driver;
    if (typeof ending !== "object") return queue.release(claim.id, ending);
    return againIfExpired(async () => forceRelease(await sessions.any(), root, claim, ending));
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    const { sessions, root } = this.#driver;
    if ("prefix" in query) {
      yield* readRecords(await sessions.any(), root, query.prefix);
      return;
    }
    const { name, limit } = query;
    const record = await againIfExpired(async () => readRecord(await sessions.any(), root, name, limit));
    if (record !== undefined) yield record;
  }

  watch({ id }: { readonly name: string; readonly id: string }, notify: Notify): Unwatch {
    return this.#driver.queue.claims.watch(id, notify);
  }

  close(): Promise<void> {
    return this.#driver.close();
  }
}
