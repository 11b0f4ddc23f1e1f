import type { Answer, ClaimRequest } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { watchBlockers } from "./blockers.js";
import { type CreateClaim, refusalBehind } from "./create-claim.js";
import type { EngineState } from "./engine-state.js";
import { unless } from "./errors.js";
import type { ListedClaim } from "./names.js";
import { OwnClaim, sessionFor } from "./own-claim.js";
import { ERROR, setData } from "./protocol.js";
import type { Releases } from "./release.js";

/** Entering the queue, and asking about a place in it. */
export class Claims {
  readonly #engine: EngineState;
  readonly #entry: CreateClaim;
  readonly #leaving: Releases;

  constructor(engine: EngineState, entry: CreateClaim, leaving: Releases) {
    this.#engine = engine;
    this.#entry = entry;
    this.#leaving = leaving;
  }

  async enter(request: ClaimRequest, askedMs: number): Promise<Answer> {
    const ownClaim = await this.#placeFor(request);
    const { session, parent } = ownClaim;
    if (ownClaim.doubtful && (await this.#entry.find(ownClaim))) return this.ask(request, ownClaim, askedMs);
    if (!request.queue || request.maxWaiters !== undefined) {
      const refusal = await refusalBehind(ownClaim, request, await session.queues.latest(parent));
      if (refusal !== undefined) {
        this.#engine.forget(ownClaim);
        return refusal;
      }
    }
    const line = await this.#entry.come(ownClaim, ownClaim.value(request));
    const ahead = this.#engine.aheadOf(ownClaim, line);
    if (ahead === undefined) return this.#engine.goneAfter(ownClaim);
    const refusal = await refusalBehind(ownClaim, request, ahead);
    if (refusal !== undefined) {
      await this.#leaving.release(ownClaim);
      return refusal;
    }
    return this.#answer(request, ownClaim, ahead, askedMs);
  }

  async #placeFor(request: ClaimRequest): Promise<OwnClaim> {
    const known = this.#engine.places.get(request.id);
    if (known !== undefined && !known.session.gone) return known;
    const session = await this.#engine.sessions.lasting(sessionFor(request));
    const ownClaim = new OwnClaim(this.#engine.root, request, session);
    this.#engine.places.set(request.id, ownClaim);
    return ownClaim;
  }

  /** Where does my place stand now? Whatever is to be shown of it is changed on the way. */
  async ask(request: ClaimRequest, ownClaim: OwnClaim, askedMs: number): Promise<Answer> {
    const { session, parent } = ownClaim;
    const value = ownClaim.value(request);
    const changing = ownClaim.written !== undefined && value.equals(ownClaim.written) ? undefined : value;
    const reading = session.queues.read(parent);
    if (changing !== undefined) {
      await Promise.all([reading, session.client.send(setData(ownClaim.path, changing))]).catch(
        unless(ERROR.noNode),
      );
      ownClaim.written = changing;
    }
    const ahead = this.#engine.aheadOf(ownClaim, await reading);
    if (ahead === undefined) {
      this.#engine.forget(ownClaim);
      return request.ticket === undefined ? this.enter(request, askedMs) : this.#engine.goneAfter(ownClaim);
    }
    return this.#answer(request, ownClaim, ahead, askedMs);
  }

  async #answer(
    request: ClaimRequest,
    ownClaim: OwnClaim,
    ahead: readonly ListedClaim[],
    askedMs: number,
  ): Promise<Answer> {
    const { session, ticket = 0n } = ownClaim;
    ownClaim.stopWatching();
    const { blockers, stop } = await watchBlockers(session, ownClaim, ahead, () =>
      this.#engine.rings.get(ownClaim.id)?.(),
    );
    if (this.#engine.places.get(ownClaim.id) === ownClaim) ownClaim.stopWatching = stop;
    else stop(); // It was taken away meanwhile.
    if (blockers.length > 0) {
      ownClaim.waited = true;
      const remainingMs = Math.min(ownClaim.remainingMs(askedMs), request.ttlMs);
      return { state: "waiting", ticket, remainingMs, changeInMs: Infinity };
    }
    if (ownClaim.grantedAtMs === undefined) await this.#granted(request, ownClaim);
    return { state: "granted", ticket, remainingMs: ownClaim.remainingMs(askedMs) };
  }

  /** The first granted answer: a fixed or a minimal time begins. */
  async #granted(request: ClaimRequest, ownClaim: OwnClaim): Promise<void> {
    const { session, waited, fixed, minHoldMs } = ownClaim;
    const ownClock = fixed || minHoldMs > 0;
    // Whoever comes and is granted has just written; whoever waited may have to rely on an old write.
    if (waited && (ownClock || session.trustedUntilMs - nowMs() < session.timeoutMs / 3))
      await session.beat();
    ownClaim.grant(request.ttlMs);
    if (waited) this.#engine.shown.later(ownClaim, request);
  }
}
