import type { Renewal, RenewRequest } from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import { nowMs } from "../../core/clock.js";
import { againIfExpired, type Desk } from "./desk.js";

/** Keeping places: all that is renewed in one turn shares one write, one look at what is there, and one at each line. */
export class Renewing {
  readonly #desk: Desk;

  constructor(desk: Desk) {
    this.#desk = desk;
  }

  async renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const askedMs = nowMs();
    return Promise.all(
      claims.map(async (claim): Promise<Renewal> => {
        try {
          return await againIfExpired(() => this.#renewOne(claim, askedMs));
        } catch (error) {
          return { state: "unknown", error };
        }
      }),
    );
  }

  async #renewOne({ id, ticket, ttlMs }: RenewRequest, askedMs: number): Promise<Renewal> {
    const place = this.#desk.places.get(id);
    if (place === undefined || place.left || place.ticket !== ticket) return this.#desk.goneOf(id);
    const { session, weight, capacity } = place;
    if (session.gone) return this.#desk.goneAfter(place);
    // What was granted stays granted, so only those who wait have to ask who is ahead.
    const reading = place.grantedAtMs === undefined ? session.lines.read(place.parent) : undefined;
    const [there, line] = await Promise.all([session.look(), reading]);
    const ahead = line === undefined ? [] : this.#desk.aheadOf(place, line);
    if (!there.has(place.path) || ahead === undefined) return this.#desk.goneAfter(place);
    const remainingMs = place.remainingMs(askedMs);
    return worthWatching(ahead, weight, capacity).length > 0
      ? { state: "waiting", remainingMs: Math.min(remainingMs, ttlMs), changeInMs: Infinity }
      : { state: "held", remainingMs: line === undefined ? remainingMs : Math.min(remainingMs, ttlMs) };
  }
}
