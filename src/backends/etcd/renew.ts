import type { Renewal, RenewRequest } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { backendError } from "../../core/errors.js";
import type { EngineState } from "./engine-state.js";
import { heartbeat } from "./heartbeat.js";
import { isStill } from "./keys.js";
import type { OwnClaim } from "./own-claim.js";
import type { Session } from "./session.js";

/** Keeping places: one heartbeat for all that share a session; the few with a lease of their own by themselves. */
export class Renewals {
  readonly #engine: EngineState;

  constructor(engine: EngineState) {
    this.#engine = engine;
  }

  async renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const answers = new Map<string, Renewal | Promise<Renewal>>();
    const bySession = new Map<Session, OwnClaim[]>();
    for (const { id, ticket, ttlMs } of claims) {
      const ownClaim = this.#engine.places.get(id);
      if (ownClaim === undefined || ownClaim.left || ownClaim.ticket !== ticket)
        answers.set(id, this.#engine.forcing.goneOf(id));
      else if (ownClaim.alone !== undefined) answers.set(id, this.#renewAlone(ownClaim, ttlMs));
      else {
        const places = bySession.get(ownClaim.session) ?? [];
        places.push(ownClaim);
        bySession.set(ownClaim.session, places);
      }
    }
    for (const [session, places] of bySession) {
      const beating = heartbeat(this.#engine.rpc, session, places);
      for (const ownClaim of places) answers.set(ownClaim.id, this.#told(ownClaim, beating));
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

  async #told(ownClaim: OwnClaim, beating: ReturnType<typeof heartbeat>): Promise<Renewal> {
    const renewal = (await beating).get(ownClaim) ?? "missing";
    if (renewal !== "missing" && renewal.state !== "gone") return renewal;
    if (renewal === "missing") {
      // Should it be there all the same, unseen by a server that lags behind: who is told of a loss has left.
      this.#engine.releases.cancelPending(ownClaim);
      return this.#engine.goneAfter(ownClaim);
    }
    this.#engine.forget(ownClaim);
    return renewal;
  }

  /** Its own lease is not extended: when that is about to end, a claim that is renewed goes back to the others. */
  async #renewAlone(ownClaim: OwnClaim, ttlMs: number): Promise<Renewal> {
    const { key, ticket = 0n } = ownClaim;
    const back = !ownClaim.fixed && ownClaim.remainingMs() <= ttlMs;
    const session = back ? await this.#lasting(ttlMs) : undefined;
    const { succeeded } = await this.#engine.rpc.txn({
      compare: [isStill(key, ticket)],
      success:
        session === undefined
          ? []
          : [{ request_put: { key, value: ownClaim.written ?? Buffer.alloc(0), lease: session.lease } }],
    });
    if (!succeeded) return this.#engine.goneAfter(ownClaim);
    if (session !== undefined) {
      ownClaim.session = session;
      ownClaim.madeMs = nowMs();
      ownClaim.alone = undefined;
    }
    return { state: "held", remainingMs: ownClaim.remainingMs() };
  }

  /** If this process ends right after the move, the claim must stay for as long as its own lease would have lasted. */
  async #lasting(ttlMs: number): Promise<Session> {
    const session = await this.#engine.sessions.withTtl(ttlMs);
    if (await session.refresh()) return session;
    throw backendError("the session of etcd has just ended.", { retryable: true });
  }
}
