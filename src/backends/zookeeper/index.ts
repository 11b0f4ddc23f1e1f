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
import { nowMs } from "../../core/clock.js";
import { ZooKeeperCells } from "./cells.js";
import { Claiming } from "./claiming.js";
import { againIfExpired, Desk } from "./desk.js";
import { Entry } from "./entry.js";
import { takeAway } from "./forcing.js";
import { Leaving } from "./leaving.js";
import { readRecord, readRecords } from "./listing.js";
import { readZooKeeperOptions, type ZooKeeperOptions, type ZooKeeperSettings } from "./options.js";
import { Renewing } from "./renewing.js";
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
  readonly #desk: Desk;
  readonly #claiming: Claiming;
  readonly #renewing: Renewing;
  readonly #leaving: Leaving;

  constructor(settings: ZooKeeperSettings) {
    this.traits = traitsOf(settings);
    const entry = new Entry(settings.acl);
    this.#desk = new Desk(settings, (session) => this.#reattached(session));
    this.#leaving = new Leaving(this.#desk, entry);
    this.#claiming = new Claiming(this.#desk, entry, this.#leaving);
    this.#renewing = new Renewing(this.#desk);
    this.cells = new ZooKeeperCells(this.#desk, settings.acl);
  }

  async claim(request: ClaimRequest): Promise<Answer> {
    const askedMs = nowMs();
    return againIfExpired(() => this.#claim(request, askedMs));
  }

  async #claim(request: ClaimRequest, askedMs: number): Promise<Answer> {
    const { id, ticket } = request;
    const place = this.#desk.places.get(id);
    if (place?.ticket === undefined) {
      return ticket === undefined ? this.#claiming.enter(request, askedMs) : this.#desk.goneOf(id);
    }
    if (place.left || (ticket !== undefined && ticket !== place.ticket)) return this.#desk.goneOf(id);
    return this.#claiming.ask(request, place, askedMs);
  }

  renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return this.#renewing.renew(claims);
  }

  async release(claim: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean> {
    const { sessions, root, places } = this.#desk;
    if (typeof ending === "object") {
      return againIfExpired(async () => takeAway(await sessions.any(), root, claim, ending));
    }
    const place = places.get(claim.id);
    if (place === undefined || (place.left && ending === undefined)) return false;
    return this.#leaving.release(place, ending === "unused");
  }

  /** What could not be given back is; and who waits asks again, because the watches are gone. */
  #reattached(session: Session): void {
    for (const place of this.#desk.placesOf(session)) {
      if (place.unwanted) this.#leaving.remove(place).catch(() => undefined);
      else if (place.grantedAtMs === undefined) this.#desk.rings.get(place.id)?.();
    }
  }

  watch({ id }: { readonly name: string; readonly id: string }, ring: Notify): Unwatch {
    const { rings } = this.#desk;
    rings.set(id, ring);
    return () => void rings.delete(id);
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    const { sessions, root } = this.#desk;
    if ("prefix" in query) {
      yield* readRecords(await sessions.any(), root, query.prefix);
      return;
    }
    const { name, limit } = query;
    const record = await againIfExpired(async () => readRecord(await sessions.any(), root, name, limit));
    if (record !== undefined) yield record;
  }

  async close(): Promise<void> {
    const { timers, places, sessions } = this.#desk;
    timers.clear();
    const used = new Set([...places.values()].flatMap((one) => (one.unwanted ? [] : [one.session])));
    await sessions.close((session) => used.has(session));
  }
}
