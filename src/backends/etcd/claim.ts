import type { Answer, ClaimRequest } from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import { nowMs } from "../../core/clock.js";
import { mayEnter, refusalOf, tooBusy, write } from "./create-claim.js";
import type { EngineState } from "./engine-state.js";
import { granted } from "./granting.js";
import { isStill, type ListedClaim } from "./keys.js";
import type { Long } from "./messages.js";
import { OwnClaim } from "./own-claim.js";
import { notEtcd } from "./replies.js";

const MOST_ATTEMPTS = 20;

/** Entering the queue, and asking about a place in it. */
export class Claims {
  readonly #engine: EngineState;

  constructor(engine: EngineState) {
    this.#engine = engine;
  }

  async enter(request: ClaimRequest): Promise<Answer> {
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const ownClaim = await this.#placeFor(request);
      const { rpc, bell } = this.#engine;
      // Whoever fits beside nobody, and does not count who waits, needs to know only the nearest.
      const whole = !ownClaim.exclusive || request.maxWaiters !== undefined;
      const permission = await mayEnter(rpc, ownClaim, request, attempt);
      if ("refusal" in permission) {
        this.#engine.forget(ownClaim);
        return permission.refusal;
      }
      const value = ownClaim.value(request, bell);
      const { succeeded, responses, header } = await write(rpc, ownClaim, permission.guard, value, whole);
      if (!succeeded) {
        const [session, first] = responses;
        if (ownClaim.session.learn(session?.response_range) || request.queue) continue;
        const claims = ownClaim.queue.read(first?.response_range);
        // Nobody is there any more, or it is ours, of an earlier request.
        if (claims.length === 0) continue;
        if (claims[0]?.id === ownClaim.id) return this.#found(request, ownClaim, claims[0].ticket);
        const refusal = ownClaim.exclusive ? refusalOf(claims, ownClaim, request) : undefined;
        if (refusal === undefined) continue;
        this.#engine.forget(ownClaim);
        return refusal;
      }
      const [, own, line] = responses;
      const [kv] = own?.response_range?.kvs ?? [];
      // What was just written is there, and in line: else nothing of this answer can be relied on.
      const seen = ownClaim.queue.read(line?.response_range);
      const at = seen.findIndex(({ id }) => id === ownClaim.id);
      if (kv === undefined || seen.length === 0 || (whole && at === -1)) throw notEtcd();
      ownClaim.ticket = BigInt(kv.create_revision);
      ownClaim.madeMs = nowMs();
      this.#engine.forcing.listen(header.revision);
      // Of a claim that was there already, from an earlier request, the newest two do not tell who is ahead.
      if (!whole && at !== seen.length - 1) return this.ask(request, ownClaim);
      const ahead = seen.slice(0, at);
      const refusal = refusalOf(ahead, ownClaim, request);
      if (refusal !== undefined) {
        await this.#engine.releases.release(ownClaim);
        return refusal;
      }
      return this.#answer(request, ownClaim, ahead, kv.mod_revision);
    }
    throw tooBusy(request.name);
  }

  async #placeFor(request: ClaimRequest): Promise<OwnClaim> {
    const known = this.#engine.places.get(request.id);
    if (known !== undefined && !known.session.gone) return known;
    const ownClaim = new OwnClaim(
      request.id,
      this.#engine.root,
      request,
      await this.#engine.sessions.withTtl(request.ttlMs),
    );
    this.#engine.places.set(request.id, ownClaim);
    return ownClaim;
  }

  #found(request: ClaimRequest, ownClaim: OwnClaim, ticket: bigint): Promise<Answer> {
    ownClaim.ticket = ticket;
    ownClaim.madeMs = nowMs();
    return this.ask(request, ownClaim);
  }

  /** Where does my place stand now? Whatever is to be shown of it is changed on the way. */
  async ask(request: ClaimRequest, ownClaim: OwnClaim): Promise<Answer> {
    const ticket = ownClaim.ticket ?? 0n;
    const { key, queue } = ownClaim;
    ownClaim.session.keepFresh();
    const value = ownClaim.value(request, this.#engine.bell);
    const reads = [{ request_range: { key, keys_only: true } }, queue.ahead(ticket, ownClaim)];
    const unchanged = ownClaim.written !== undefined && value.equals(ownClaim.written);
    const { responses } = await this.#engine.rpc.txn(
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
      if (request.ticket !== undefined) return this.#engine.goneAfter(ownClaim);
      await ownClaim.cancelPending();
      this.#engine.forget(ownClaim);
      return this.enter(request);
    }
    ownClaim.written = value;
    return this.#answer(request, ownClaim, queue.read(ahead?.response_range), kv.mod_revision);
  }

  async #answer(
    request: ClaimRequest,
    ownClaim: OwnClaim,
    ahead: readonly ListedClaim[],
    changed: Long,
  ): Promise<Answer> {
    const ticket = ownClaim.ticket ?? 0n;
    const blockers = worthWatching(ahead, ownClaim.weight, ownClaim.capacity);
    this.#engine.watchBlockers(ownClaim, blockers);
    if (blockers.length > 0) {
      ownClaim.waited = true;
      return { state: "waiting", ticket, remainingMs: ownClaim.remainingMs(), changeInMs: Infinity };
    }
    if (ownClaim.grantedAtMs === undefined && !(await granted(this.#engine, request, ownClaim, changed)))
      return this.ask(request, ownClaim);
    return { state: "granted", ticket, remainingMs: ownClaim.remainingMs() };
  }
}
