import type { Answer, ClaimRequest } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { watchBlockers } from "./blockers.js";
import type { Desk } from "./desk.js";
import { type Entry, refusalBehind } from "./entry.js";
import { unless } from "./errors.js";
import type { Leaving } from "./leaving.js";
import type { ListedClaim } from "./names.js";
import { sessionFor, ZooKeeperPlace } from "./place.js";
import { ERROR, setData } from "./protocol.js";

/** Entering the queue, and asking about a place in it. */
export class Claiming {
  readonly #desk: Desk;
  readonly #entry: Entry;
  readonly #leaving: Leaving;

  constructor(desk: Desk, entry: Entry, leaving: Leaving) {
    this.#desk = desk;
    this.#entry = entry;
    this.#leaving = leaving;
  }

  async enter(request: ClaimRequest, askedMs: number): Promise<Answer> {
    const place = await this.#placeFor(request);
    const { session, parent } = place;
    if (place.doubtful && (await this.#entry.find(place))) return this.ask(request, place, askedMs);
    if (!request.queue || request.maxWaiters !== undefined) {
      const refusal = await refusalBehind(place, request, await session.lines.latest(parent));
      if (refusal !== undefined) {
        this.#desk.forget(place);
        return refusal;
      }
    }
    const line = await this.#entry.come(place, place.value(request));
    const ahead = this.#desk.aheadOf(place, line);
    if (ahead === undefined) return this.#desk.goneAfter(place);
    const refusal = await refusalBehind(place, request, ahead);
    if (refusal !== undefined) {
      await this.#leaving.release(place);
      return refusal;
    }
    return this.#answer(request, place, ahead, askedMs);
  }

  async #placeFor(request: ClaimRequest): Promise<ZooKeeperPlace> {
    const known = this.#desk.places.get(request.id);
    if (known !== undefined && !known.session.gone) return known;
    const session = await this.#desk.sessions.lasting(sessionFor(request));
    const place = new ZooKeeperPlace(this.#desk.root, request, session);
    this.#desk.places.set(request.id, place);
    return place;
  }

  /** Where does my place stand now? Whatever is to be shown of it is changed on the way. */
  async ask(request: ClaimRequest, place: ZooKeeperPlace, askedMs: number): Promise<Answer> {
    const { session, parent } = place;
    const value = place.value(request);
    const changing = place.written !== undefined && value.equals(place.written) ? undefined : value;
    const reading = session.lines.read(parent);
    if (changing !== undefined) {
      await Promise.all([reading, session.client.send(setData(place.path, changing))]).catch(
        unless(ERROR.noNode),
      );
      place.written = changing;
    }
    const ahead = this.#desk.aheadOf(place, await reading);
    if (ahead === undefined) {
      this.#desk.forget(place);
      return request.ticket === undefined ? this.enter(request, askedMs) : this.#desk.goneAfter(place);
    }
    return this.#answer(request, place, ahead, askedMs);
  }

  async #answer(
    request: ClaimRequest,
    place: ZooKeeperPlace,
    ahead: readonly ListedClaim[],
    askedMs: number,
  ): Promise<Answer> {
    const { session, ticket = 0n } = place;
    place.stopWatching();
    const { blockers, stop } = await watchBlockers(session, place, ahead, () =>
      this.#desk.rings.get(place.id)?.(),
    );
    if (this.#desk.places.get(place.id) === place) place.stopWatching = stop;
    else stop(); // It was taken away meanwhile.
    if (blockers.length > 0) {
      place.waited = true;
      const remainingMs = Math.min(place.remainingMs(askedMs), request.ttlMs);
      return { state: "waiting", ticket, remainingMs, changeInMs: Infinity };
    }
    if (place.grantedAtMs === undefined) await this.#granted(request, place);
    return { state: "granted", ticket, remainingMs: place.remainingMs(askedMs) };
  }

  /** The first granted answer: a fixed or a minimal time begins. */
  async #granted(request: ClaimRequest, place: ZooKeeperPlace): Promise<void> {
    const { session, waited, fixed, minHoldMs } = place;
    const ownClock = fixed || minHoldMs > 0;
    // Whoever comes and is granted has just written; whoever waited may have to rely on an old write.
    if (waited && (ownClock || session.trustedUntilMs - nowMs() < session.timeoutMs / 3))
      await session.beat();
    place.grant(request.ttlMs);
    if (waited) this.#desk.shown.later(place, request);
  }
}
