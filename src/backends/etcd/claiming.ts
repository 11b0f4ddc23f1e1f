import type { Answer, ClaimRequest } from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import { nowMs } from "../../core/clock.js";
import type { Desk } from "./desk.js";
import { mayEnter, refusalOf, tooBusy, write } from "./entry.js";
import { granted } from "./granting.js";
import { isStill, type ListedClaim } from "./keys.js";
import type { Long } from "./messages.js";
import { EtcdPlace } from "./place.js";
import { notEtcd } from "./replies.js";

const MOST_ATTEMPTS = 20;

/** Entering the queue, and asking about a place in it. */
export class Claiming {
  readonly #desk: Desk;

  constructor(desk: Desk) {
    this.#desk = desk;
  }

  async enter(request: ClaimRequest): Promise<Answer> {
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const place = await this.#placeFor(request);
      const { rpc, bell } = this.#desk;
      // Whoever fits beside nobody, and does not count who waits, needs to know only the nearest.
      const whole = !place.exclusive || request.maxWaiters !== undefined;
      const permission = await mayEnter(rpc, place, request, attempt);
      if ("refusal" in permission) {
        this.#desk.forget(place);
        return permission.refusal;
      }
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
        if (refusal === undefined) continue;
        this.#desk.forget(place);
        return refusal;
      }
      const [, own, line] = responses;
      const [kv] = own?.response_range?.kvs ?? [];
      // What was just written is there, and in line: else nothing of this answer can be relied on.
      const seen = place.line.read(line?.response_range);
      const at = seen.findIndex(({ id }) => id === place.id);
      if (kv === undefined || seen.length === 0 || (whole && at === -1)) throw notEtcd();
      place.ticket = BigInt(kv.create_revision);
      place.madeMs = nowMs();
      this.#desk.forcing.listen(header.revision);
      // Of a claim that was there already, from an earlier request, the newest two do not tell who is ahead.
      if (!whole && at !== seen.length - 1) return this.ask(request, place);
      const ahead = seen.slice(0, at);
      const refusal = refusalOf(ahead, place, request);
      if (refusal !== undefined) {
        await this.#desk.leaving.release(place);
        return refusal;
      }
      return this.#answer(request, place, ahead, kv.mod_revision);
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
    const { responses } = await this.#desk.rpc.txn(
      unchanged
        ? { success: reads }
        : {
            compare: [isStill(key, ticket)],
            success: [{ request_put: { key, value, ignore_lease: true } }, ...reads],
          },
    );
    const [own, ahead] = responses.slice(-reads.length);
    const [kv] = own?.response_range?.kvs ?? [];
    if (kv?.create_revision !== String(ticket)) {
      if (request.ticket !== undefined) return this.#desk.goneAfter(place);
      await place.callOff();
      this.#desk.forget(place);
      return this.enter(request);
    }
    place.written = value;
    return this.#answer(request, place, line.read(ahead?.response_range), kv.mod_revision);
  }

  async #answer(
    request: ClaimRequest,
    place: EtcdPlace,
    ahead: readonly ListedClaim[],
    changed: Long,
  ): Promise<Answer> {
    const ticket = place.ticket ?? 0n;
    const blockers = worthWatching(ahead, place.weight, place.capacity);
    this.#desk.watchBlockers(place, blockers);
    if (blockers.length > 0) {
      place.waited = true;
      return { state: "waiting", ticket, remainingMs: place.remainingMs(), changeInMs: Infinity };
    }
    if (place.grantedAtMs === undefined && !(await granted(this.#desk, request, place, changed)))
      return this.ask(request, place);
    return { state: "granted", ticket, remainingMs: place.remainingMs() };
  }
}
