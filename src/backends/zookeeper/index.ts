import type {
  Answer,
  Backend,
  ClaimRequest,
  Ending,
  Gone,
  Renewal,
  RenewRequest,
  ResourceRecord,
  Ring,
  Unwatch,
} from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import { nowMs } from "../../core/clock.js";
import { watchBlockers } from "./blockers.js";
import { Entry, refusalBehind } from "./entry.js";
import { isRefusal, reachedNobody, unless } from "./errors.js";
import { Obituaries, takeAway } from "./forcing.js";
import { aheadOf } from "./line.js";
import { readRecord, readRecords } from "./listing.js";
import type { ListedClaim } from "./names.js";
import { readZooKeeperOptions, type ZooKeeperOptions, type ZooKeeperSettings } from "./options.js";
import { sessionFor, ZooKeeperPlace } from "./place.js";
import { ERROR, remove, setData } from "./protocol.js";
import type { Session } from "./session.js";
import { Sessions } from "./sessions.js";
import { Shown } from "./shown.js";
import { Timers } from "./timers.js";
import { TRAITS } from "./traits.js";

export type { ZooKeeperOptions } from "./options.js";

/** On how many sessions one request may be tried, each of which turns out to be over. */
const MOST_SESSIONS = 3;

/** Locks on ZooKeeper, in the layout of Curator. */
export function zookeeper(options: ZooKeeperOptions): Backend {
  return new ZooKeeperBackend(readZooKeeperOptions(options));
}

class ZooKeeperBackend implements Backend {
  readonly traits = TRAITS;
  readonly #root: string;
  readonly #sessions: Sessions;
  readonly #entry: Entry;
  readonly #obituaries = new Obituaries();
  readonly #places = new Map<string, ZooKeeperPlace>();
  readonly #rings = new Map<string, Ring>();
  readonly #timers = new Timers();
  readonly #shown = new Shown(this.#timers);

  constructor(settings: ZooKeeperSettings) {
    this.#root = settings.root;
    this.#entry = new Entry(settings.acl);
    this.#sessions = new Sessions(settings, {
      bell: (session) => this.#listen(session),
      reattached: (session) => this.#reattached(session),
      gone: (session) => this.#sessionGone(session),
    });
  }

  async claim(request: ClaimRequest): Promise<Answer> {
    const askedMs = nowMs();
    return againIfExpired(() => this.#claim(request, askedMs));
  }

  async #claim(request: ClaimRequest, askedMs: number): Promise<Answer> {
    const { id, ticket } = request;
    const place = this.#places.get(id);
    if (place?.ticket === undefined) {
      return ticket === undefined ? this.#enter(request, askedMs) : this.#goneOf(id);
    }
    if (place.left || (ticket !== undefined && ticket !== place.ticket)) return this.#goneOf(id);
    return this.#ask(request, place, askedMs);
  }

  async #enter(request: ClaimRequest, askedMs: number): Promise<Answer> {
    const place = await this.#placeFor(request);
    const { session, parent } = place;
    if (place.doubtful && (await this.#entry.find(place))) return this.#ask(request, place, askedMs);
    if (!request.queue || request.maxWaiters !== undefined) {
      const refusal = await refusalBehind(place, request, await session.lines.latest(parent));
      if (refusal !== undefined) {
        this.#forget(place);
        return refusal;
      }
    }
    const line = await this.#entry.come(place, place.value(request));
    const ahead = this.#aheadOf(place, line);
    if (ahead === undefined) return this.#goneAfter(place);
    const refusal = await refusalBehind(place, request, ahead);
    if (refusal !== undefined) {
      await this.release(request);
      return refusal;
    }
    return this.#answer(request, place, ahead, askedMs);
  }

  async #placeFor(request: ClaimRequest): Promise<ZooKeeperPlace> {
    const known = this.#places.get(request.id);
    if (known !== undefined && !known.session.gone) return known;
    const session = await this.#sessions.lasting(sessionFor(request));
    const place = new ZooKeeperPlace(this.#root, request, session);
    this.#places.set(request.id, place);
    return place;
  }

  /** Who stands before it; `undefined` if it is not in line itself. */
  #aheadOf(place: ZooKeeperPlace, line: readonly ListedClaim[]): readonly ListedClaim[] | undefined {
    const found = aheadOf(line, place);
    for (const { node } of found?.orphans ?? []) {
      place.session.client.send(remove(`${place.parent}/${node}`)).catch(() => undefined);
    }
    return found?.ahead;
  }

  /** Where does my place stand now? Whatever is to be shown of it is changed on the way. */
  async #ask(request: ClaimRequest, place: ZooKeeperPlace, askedMs: number): Promise<Answer> {
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
    const ahead = this.#aheadOf(place, await reading);
    if (ahead === undefined) {
      this.#forget(place);
      return request.ticket === undefined ? this.#enter(request, askedMs) : this.#goneAfter(place);
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
      this.#rings.get(place.id)?.(),
    );
    place.stopWatching = stop;
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
    if (waited) this.#shown.later(place, request);
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

  /** All that is renewed in one turn shares one write, one look at what is there, and one at each line. */
  async #renewOne({ id, ticket, ttlMs }: RenewRequest, askedMs: number): Promise<Renewal> {
    const place = this.#places.get(id);
    if (place === undefined || place.left || place.ticket !== ticket) return this.#goneOf(id);
    const { session, weight, capacity } = place;
    if (session.gone) return this.#goneAfter(place);
    // What was granted stays granted, so only those who wait have to ask who is ahead.
    const reading = place.grantedAtMs === undefined ? session.lines.read(place.parent) : undefined;
    const [there, line] = await Promise.all([session.look(), reading]);
    const ahead = line === undefined ? [] : this.#aheadOf(place, line);
    if (!there.has(place.path) || ahead === undefined) return this.#goneAfter(place);
    const remainingMs = place.remainingMs(askedMs);
    return worthWatching(ahead, weight, capacity).length > 0
      ? { state: "waiting", remainingMs: Math.min(remainingMs, ttlMs), changeInMs: Infinity }
      : { state: "held", remainingMs: line === undefined ? remainingMs : Math.min(remainingMs, ttlMs) };
  }

  async release(claim: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean> {
    if (typeof ending === "object") {
      return againIfExpired(async () => takeAway(await this.#sessions.any(), this.#root, claim, ending));
    }
    const place = this.#places.get(claim.id);
    if (place === undefined || (place.left && ending === undefined)) return false;
    const restMs = place.heldUntilMs() - nowMs();
    if (restMs > 0 && ending === undefined) return this.#leaveLater(place, restMs);
    return this.#remove(place);
  }

  /** Its session keeps it if this process ends meanwhile; while it runs, it is removed to the moment. */
  async #leaveLater(place: ZooKeeperPlace, restMs: number): Promise<boolean> {
    const there = await place.session.look();
    if (!there.has(place.path)) {
      this.#forget(place);
      return false;
    }
    place.left = true;
    this.#timers.later(restMs, () => void this.#remove(place).catch(() => undefined));
    return true;
  }

  /** Says whether it was there. If that cannot be known now, it is tried again when the session is connected. */
  async #remove(place: ZooKeeperPlace): Promise<boolean> {
    place.unwanted = true;
    const { session } = place;
    const found = session.gone ? false : await this.#removeNode(place);
    this.#forget(place);
    return found;
  }

  async #removeNode(place: ZooKeeperPlace): Promise<boolean> {
    if (place.doubtful) await this.#entry.find(place);
    if (place.node === undefined) return false;
    const removed = place.session.client.send(remove(place.path)).then(() => true);
    return (await removed.catch(unless(ERROR.noNode))) ?? false;
  }

  #forget(place: ZooKeeperPlace): void {
    place.stopWatching();
    this.#shown.forget(place);
    if (this.#places.get(place.id) === place) this.#places.delete(place.id);
  }

  async #goneAfter(place: ZooKeeperPlace): Promise<Gone> {
    this.#forget(place);
    return place.session.gone ? { state: "gone", loss: "session" } : this.#goneOf(place.id);
  }

  async #goneOf(id: string): Promise<Gone> {
    const known = this.#obituaries.of(id);
    if (known !== undefined) return known;
    // The bell may have been rung a moment ago.
    const listening = this.#sessions.live.map((one) =>
      this.#obituaries.listen(one, (...at) => this.#ringGone(...at)),
    );
    await Promise.all(listening);
    return this.#obituaries.of(id) ?? { state: "gone", loss: "taken" };
  }

  #listen(session: Session): void {
    this.#obituaries.listen(session, (id, gone) => this.#ringGone(id, gone)).catch(() => undefined);
  }

  #ringGone(id: string, gone: Gone): void {
    const place = this.#places.get(id);
    if (place?.ticket === undefined) return;
    this.#forget(place);
    this.#rings.get(id)?.({ ...gone, ticket: place.ticket });
  }

  #reattached(session: Session): void {
    this.#listen(session);
    for (const place of [...this.#places.values()]) {
      if (place.session !== session) continue;
      if (place.unwanted) this.#remove(place).catch(() => undefined);
      else if (place.grantedAtMs === undefined) this.#rings.get(place.id)?.();
    }
  }

  #sessionGone(session: Session): void {
    const gone: Gone = { state: "gone", loss: "session" };
    for (const place of [...this.#places.values()]) {
      if (place.session !== session) continue;
      this.#obituaries.add(place.id, gone);
      if (place.ticket === undefined) this.#forget(place);
      else this.#ringGone(place.id, gone);
    }
  }

  watch(claim: { readonly name: string; readonly id: string }, ring: Ring): Unwatch {
    this.#rings.set(claim.id, ring);
    return () => void this.#rings.delete(claim.id);
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    const any = () => this.#sessions.any();
    if ("prefix" in query) {
      yield* readRecords(await any(), this.#root, query.prefix);
      return;
    }
    const { name, limit } = query;
    const record = await againIfExpired(async () => readRecord(await any(), this.#root, name, limit));
    if (record !== undefined) yield record;
  }

  async close(): Promise<void> {
    this.#timers.clear();
    const used = new Set([...this.#places.values()].flatMap((one) => (one.unwanted ? [] : [one.session])));
    await this.#sessions.close((session) => used.has(session));
  }
}

/**
 * A session that turns out to be over leaves nothing: the next one is asked, or a claim is known to be gone. And
 * what was written to a connection that the server had closed long before, while we did not run, reached nobody.
 */
async function againIfExpired<T>(act: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await act();
    } catch (error) {
      const inVain = isRefusal(error, ERROR.sessionExpired) || reachedNobody(error);
      if (!inVain || attempt === MOST_SESSIONS) throw error;
    }
  }
}
