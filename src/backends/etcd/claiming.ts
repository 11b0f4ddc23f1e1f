import type { Answer, ClaimRequest } from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import { nowMs, sendingNow } from "../../core/clock.js";
import type { Desk } from "./desk.js";
import { mayEnter, refusalOf, tooBusy, write } from "./entry.js";
import { isStill, type ListedClaim } from "./keys.js";
import type { Leaving } from "./leaving.js";
import type { Long } from "./messages.js";
import { EtcdPlace } from "./place.js";

const MOST_ATTEMPTS = 20;

/** Entering the queue, and asking about a place in it. */
export class Claiming {
  readonly #desk: Desk;
  readonly #leaving: Leaving;

  constructor(desk: Desk, leaving: Leaving) {
    this.#desk = desk;
    this.#leaving = leaving;
  }

  async enter(request: ClaimRequest): Promise<Answer> {
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const place = await this.#placeFor(request);
      const { rpc, bell } = this.#desk;
      // Whoever fits beside nobody, and does not count who waits, needs to know only the nearest.
      const whole = !place.exclusive || request.maxWaiters !== undefined;
      const permission = await mayEnter(rpc, place, request, attempt);
      if ("refusal" in permission) return this.#refused(place, permission.refusal);
      const value = place.value(request, bell);
      const { succeeded, responses, header } = await write(rpc, place, permission.guard, value, whole);
      if (!succeeded) {
        const [session, first] = responses;
        if (place.session.learn(session?.response_range) || request.queue) continue;
        const claims = place.line.read(first?.response_range);
        // Nobody is there any more, or it is ours, of an earlier request.
        if (claims.length === 0) continue;
        if (claims[0]?.id === place.id) return this.#found(request, place, claims[0].ticket);
        const refusal = place.exclusive ? refusalOf(claims, place, request) : undefined;
        if (refusal !== undefined) return this.#refused(place, refusal);
        continue;
      }
      const [, own, line] = responses;
      place.ticket = BigInt(own?.response_range?.kvs[0]?.create_revision ?? 0);
      place.madeMs = nowMs();
      this.#desk.forcing.listen(header.revision);
      const seen = place.line.read(line?.response_range);
      const at = seen.findIndex(({ id }) => id === place.id);
      // Of a claim that was there already, from an earlier request, the newest two do not tell who is ahead.
      if (!whole && at !== seen.length - 1) return this.ask(request, place);
      const ahead = seen.slice(0, at);
      const refusal = refusalOf(ahead, place, request);
      if (refusal !== undefined) {
        await this.#leaving.release(place);
        return refusal;
      }
      return this.#answer(request, place, ahead, header.revision);
    }
    throw tooBusy(request.name);
  }

  async #placeFor(request: ClaimRequest): Promise<EtcdPlace> {
    const known = this.#desk.places.get(request.id);
    if (known !== undefined && !known.session.gone) return known;
    const place = new EtcdPlace(
      request.id,
      this.#desk.root,
      request,
      await this.#desk.sessions.withTtl(request.ttlMs),
    );
    this.#desk.places.set(request.id, place);
    return place;
  }

  #refused<T extends Answer>(place: EtcdPlace, refusal: T): T {
    this.#desk.forget(place);
    if (place.doubtful) this.#leaving.clearAway(place);
    return refusal;
  }

  #found(request: ClaimRequest, place: EtcdPlace, ticket: bigint): Promise<Answer> {
    place.ticket = ticket;
    place.madeMs = nowMs();
    return this.ask(request, place);
  }

  /** Where does my place stand now? Whatever is to be shown of it is changed on the way. */
  async ask(request: ClaimRequest, place: EtcdPlace): Promise<Answer> {
    const ticket = place.ticket ?? 0n;
    const { key, line } = place;
    place.session.keepFresh();
    const value = place.value(request, this.#desk.bell);
    const reads = [{ request_range: { key, keys_only: true } }, line.ahead(ticket, place)];
    const unchanged = place.written !== undefined && value.equals(place.written);
    const { responses, header } = await this.#desk.rpc.txn(
      unchanged
        ? { success: reads }
        : {
            compare: [isStill(key, ticket)],
            success: [...reads, { request_put: { key, value, lease: place.lease } }],
          },
    );
    const [own, ahead] = responses;
    if (own?.response_range?.kvs[0]?.create_revision !== String(ticket)) {
      this.#desk.forget(place);
      return request.ticket === undefined ? this.enter(request) : this.#desk.goneAfter(place);
    }
    place.written = value;
    return this.#answer(request, place, line.read(ahead?.response_range), header.revision);
  }

  async #answer(
    request: ClaimRequest,
    place: EtcdPlace,
    ahead: readonly ListedClaim[],
    revision: Long,
  ): Promise<Answer> {
    const ticket = place.ticket ?? 0n;
    const blockers = worthWatching(ahead, place.weight, place.capacity);
    this.#desk.watchBlockers(place, blockers, revision);
    if (blockers.length > 0) {
      place.waited = true;
      return { state: "waiting", ticket, remainingMs: place.remainingMs(), changeInMs: Infinity };
    }
    if (place.grantedAtMs === undefined && !(await this.#granted(request, place)))
      return this.#desk.goneAfter(place);
    return { state: "granted", ticket, remainingMs: place.remainingMs() };
  }

  /** The first granted answer: a fixed or a minimal time begins, and needs a lease of its own. */
  async #granted(request: ClaimRequest, place: EtcdPlace): Promise<boolean> {
    const { key, ticket = 0n, fixed, minHoldMs, waited } = place;
    const sent = sendingNow();
    const { atMs } = sent;
    if (!fixed && minHoldMs === 0) {
      place.grant(atMs);
      // Since when it is held is for people to see; nobody waits for that.
      if (waited) this.#show(place, place.value(request, this.#desk.bell));
      return true;
    }
    const lengthMs = Math.max(request.ttlMs, minHoldMs);
    const { ID: lease, TTL } = await this.#desk.rpc.grantLease(Math.ceil(lengthMs / 1_000));
    const value = place.value(request, this.#desk.bell, true);
    const { succeeded } = await this.#desk.rpc.txn({
      compare: [isStill(key, ticket)],
      success: [{ request_put: { key, value, lease } }],
    });
    if (!succeeded) return false;
    place.grant(atMs);
    place.alone = { lease, sent, lengthMs: Math.min(lengthMs, Number(TTL) * 1_000) };
    place.written = value;
    return true;
  }

  #show(place: EtcdPlace, value: Buffer): void {
    const { key, ticket = 0n, lease } = place;
    place.written = value;
    const compare = [isStill(key, ticket)];
    this.#desk.rpc.txn({ compare, success: [{ request_put: { key, value, lease } }] }).catch(() => undefined);
  }
}
