import type { Renewal, RenewRequest } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { backendError } from "../../core/errors.js";
import type { Desk } from "./desk.js";
import { heartbeat } from "./heartbeat.js";
import { isStill } from "./keys.js";
import type { EtcdPlace } from "./place.js";
import type { Session } from "./session.js";

/** Keeping places: one heartbeat for all that share a session; the few with a lease of their own by themselves. */
export class Renewing {
  readonly #desk: Desk;

  constructor(desk: Desk) {
    this.#desk = desk;
  }

  async renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const answers = new Map<string, Renewal | Promise<Renewal>>();
    const bySession = new Map<Session, EtcdPlace[]>();
    for (const { id, ticket, ttlMs } of claims) {
      const place = this.#desk.places.get(id);
      if (place === undefined || place.left || place.ticket !== ticket)
        answers.set(id, this.#desk.forcing.goneOf(id));
      else if (place.alone !== undefined) answers.set(id, this.#renewAlone(place, ttlMs));
      else {
        const places = bySession.get(place.session) ?? [];
        places.push(place);
        bySession.set(place.session, places);
      }
    }
    for (const [session, places] of bySession) {
      const beating = heartbeat(this.#desk.rpc, session, places);
      for (const place of places) answers.set(place.id, this.#told(place, beating));
    }
    return Promise.all(
      claims.map(async ({ id }) => {
        try {
          return (await answers.get(id)) ?? { state: "gone", loss: "taken" };
        } catch (error) {
          return { state: "unknown", error };
        }
      }),
    );
  }

  async #told(place: EtcdPlace, beating: ReturnType<typeof heartbeat>): Promise<Renewal> {
    const renewal = (await beating).get(place) ?? "missing";
    if (renewal !== "missing" && renewal.state !== "gone") return renewal;
    if (renewal === "missing") {
      // Should it be there all the same, unseen by a server that lags behind: who is told of a loss has left.
      this.#desk.leaving.dispel(place);
      return this.#desk.goneAfter(place);
    }
    this.#desk.forget(place);
    return renewal;
  }

  /** Its own lease is not extended: when that is about to end, a claim that is renewed goes back to the others. */
  async #renewAlone(place: EtcdPlace, ttlMs: number): Promise<Renewal> {
    const { key, ticket = 0n } = place;
    const back = !place.fixed && place.remainingMs() <= ttlMs;
    const session = back ? await this.#lasting(ttlMs) : undefined;
    const { succeeded } = await this.#desk.rpc.txn({
      compare: [isStill(key, ticket)],
      success:
        session === undefined
          ? []
          : [{ request_put: { key, value: place.written ?? Buffer.alloc(0), lease: session.lease } }],
    });
    if (!succeeded) return this.#desk.goneAfter(place);
    if (session !== undefined) {
      place.session = session;
      place.madeMs = nowMs();
      place.alone = undefined;
    }
    return { state: "held", remainingMs: place.remainingMs() };
  }

  /** If this process ends right after the move, the claim must stay for as long as its own lease would have lasted. */
  async #lasting(ttlMs: number): Promise<Session> {
    const session = await this.#desk.sessions.withTtl(ttlMs);
    if (await session.refresh()) return session;
    throw backendError("the session of etcd has just ended.", { retryable: true });
  }
}
