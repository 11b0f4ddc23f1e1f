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
import { ZooKeeperCells } from "./cells.js";
import { Claims } from "./claim.js";
import { CreateClaim } from "./create-claim.js";
import { againIfExpired, EngineState } from "./engine-state.js";
import { forceRelease } from "./force.js";
import { readRecord, readRecords } from "./list.js";
import { readZooKeeperOptions, type ZooKeeperOptions, type ZooKeeperSettings } from "./options.js";
import { Releases } from "./release.js";
import { Renewals } from "./renew.js";
import type { Session } from "./session.js";
import { traitsOf } from "./traits.js";

export type { ZooKeeperOptions } from "./options.js";

/** Locks on ZooKeeper, in the layout of Curator. */
export function zookeeper(options: ZooKeeperOptions): Backend {
  return new ZooKeeperBackend(readZooKeeperOptions(options));
}

class ZooKeeperBackend implements Backend {
  readonly traits: Traits;
  readonly cells: CellStore;
  readonly #engine: EngineState;
  readonly #claiming: Claims;
  readonly #renewing: Renewals;
  readonly #leaving: Releases;

  constructor(settings: ZooKeeperSettings) {
    this.traits = traitsOf(settings);
    const entry = new CreateClaim(settings.acl);
    this.#engine = new EngineState(settings, (session) => this.#reattached(session));
    this.#leaving = new Releases(this.#engine, entry);
    this.#claiming = new Claims(this.#engine, entry, this.#leaving);
    this.#renewing = new Renewals(this.#engine);
    this.cells = new ZooKeeperCells(this.#engine, settings.acl);
  }

  async claim(request: ClaimRequest): Promise<Answer> {
    const askedMs = nowMs();
    return againIfExpired(() => this.#claim(request, askedMs));
  }

  async #claim(request: ClaimRequest, askedMs: number): Promise<Answer> {
    const { id, ticket } = request;
    const ownClaim = this.#engine.places.get(id);
    if (ownClaim?.ticket === undefined) {
      return ticket === undefined ? this.#claiming.enter(request, askedMs) : this.#engine.goneOf(id);
    }
    if (ownClaim.left || (ticket !== undefined && ticket !== ownClaim.ticket)) return this.#engine.goneOf(id);
    return this.#claiming.ask(request, ownClaim, askedMs);
  }

  renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return this.#renewing.renew(claims);
  }

  async release(claim: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean> {
    const { sessions, root, places } = this.#engine;
    if (typeof ending === "object") {
      return againIfExpired(async () => forceRelease(await sessions.any(), root, claim, ending));
    }
    const ownClaim = places.get(claim.id);
    if (ownClaim === undefined || (ownClaim.left && ending === undefined)) return false;
    return this.#leaving.release(ownClaim, ending === "unused");
  }

  /** What could not be given back is; and who waits asks again, because the watches are gone. */
  #reattached(session: Session): void {
    for (const ownClaim of this.#engine.placesOf(session)) {
      if (ownClaim.unwanted) this.#leaving.remove(ownClaim).catch(() => undefined);
      else if (ownClaim.grantedAtMs === undefined) this.#engine.rings.get(ownClaim.id)?.();
    }
  }

  watch({ id }: { readonly name: string; readonly id: string }, ring: Notify): Unwatch {
    const { rings } = this.#engine;
    rings.set(id, ring);
    return () => void rings.delete(id);
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    const { sessions, root } = this.#engine;
    if ("prefix" in query) {
      yield* readRecords(await sessions.any(), root, query.prefix);
      return;
    }
    const { name, limit } = query;
    const record = await againIfExpired(async () => readRecord(await sessions.any(), root, name, limit));
    if (record !== undefined) yield record;
  }

  async close(): Promise<void> {
    const { timers, places, sessions } = this.#engine;
    timers.clear();
    const used = new Set([...places.values()].flatMap((one) => (one.unwanted ? [] : [one.session])));
    await sessions.close((session) => used.has(session));
  }
}
