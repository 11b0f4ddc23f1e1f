import type { Renewal, RenewRequest } from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import { nowMs } from "../../core/clock.js";
import { againIfExpired, type EngineState } from "./engine-state.js";

/** Keeping places: all that is renewed in one turn shares one write, one look at what is there, and one at each line. */
export class Renewals {
  readonly #engine: EngineState;

  constructor(engine: EngineState) {
    this.#engine = engine;
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
    const ownClaim = this.#engine.places.get(id);
    if (ownClaim === undefined || ownClaim.left || ownClaim.ticket !== ticket) return this.#engine.goneOf(id);
    const { session, weight, capacity } = ownClaim;
    if (session.gone) return this.#engine.goneAfter(ownClaim);
    // What was granted stays granted, so only those who wait have to ask who is ahead.
    const reading = ownClaim.grantedAtMs === undefined ? session.queues.read(ownClaim.parent) : undefined;
    const [there, line] = await Promise.all([session.look(), reading]);
    const ahead = line === undefined ? [] : this.#engine.aheadOf(ownClaim, line);
    if (!there.has(ownClaim.path) || ahead === undefined) return this.#engine.goneAfter(ownClaim);
    const remainingMs = ownClaim.remainingMs(askedMs);
    return worthWatching(ahead, weight, capacity).length > 0
      ? { state: "waiting", remainingMs: Math.min(remainingMs, ttlMs), changeInMs: Infinity }
      : { state: "held", remainingMs: line === undefined ? remainingMs : Math.min(remainingMs, ttlMs) };
  }
}
