import { randomBytes } from "node:crypto";
import type {
  Answer,
  Backend,
  ClaimRequest,
  Force,
  Gone,
  Renewal,
  RenewRequest,
  ResourceRecord,
  Ring,
  Traits,
  Unwatch,
} from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import { nowMs } from "../../core/clock.js";
import { LONGEST_TIMER_MS } from "../../core/duration.js";
import { mayEnter, mismatchOf, tooBusy, write } from "./entry.js";
import { Forcing } from "./forcing.js";
import { heartbeat } from "./heartbeat.js";
import { isStill, type ListedClaim } from "./keys.js";
import { readRecord, readRecords } from "./listing.js";
import type { Long } from "./messages.js";
import { type EtcdOptions, type EtcdSettings, readEtcdOptions } from "./options.js";
import { EtcdPlace } from "./place.js";
import { EtcdRpc } from "./rpc.js";
import type { Session } from "./session.js";
import { Sessions } from "./sessions.js";
import { Watcher } from "./watcher.js";

export type { EtcdOptions } from "./options.js";

const MOST_ATTEMPTS = 20;
const SHORTEST_RETRY_MS = 500;

const TRAITS: Traits = {
  engine: "etcd",
  reach: "network",
  fencing: true,
  queueing: true,
  ringing: true,
  ttl: "session",
  expiryGranularityMs: 2_000,
  caveats: [
    "Times to live are whole seconds, and at least one and a half election timeouts of the servers.",
    "A new leader extends all leases, so after an election a dead holder may keep its lock for longer than its ttl.",
  ],
};

/** Locks on etcd, in the layout of its own clients. */
export function etcd(options: EtcdOptions): Backend {
  return new EtcdBackend(readEtcdOptions(options));
}

class EtcdBackend implements Backend {
  readonly traits = TRAITS;
  readonly #root: string;
  readonly #rpc: EtcdRpc;
  readonly #watcher: Watcher;
  readonly #sessions: Sessions;
  readonly #forcing: Forcing;
  readonly #bell = randomBytes(9).toString("base64url");
  readonly #places = new Map<string, EtcdPlace>();
  readonly #rings = new Map<string, Ring>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #closed = false;

  constructor(settings: EtcdSettings) {
    this.#root = settings.root;
    this.#rpc = new EtcdRpc(settings, () => this.#watcher.renew());
    this.#watcher = new Watcher(this.#rpc);
    this.#sessions = new Sessions(this.#rpc, settings.root);
    this.#forcing = new Forcing(this.#rpc, this.#watcher, settings.root, this.#bell, (id, gone) =>
      this.#ringGone(id, gone),
    );
  }

  async claim(request: ClaimRequest): Promise<Answer> {
    const place = this.#places.get(request.id);
    if (place?.ticket === undefined) {
      return request.ticket === undefined ? this.#enter(request) : this.#forcing.goneOf(request.id);
    }
    if (place.left || (request.ticket !== undefined && request.ticket !== place.ticket)) {
      return this.#forcing.goneOf(request.id);
    }
    return this.#ask(request, place);
  }

  async #enter(request: ClaimRequest): Promise<Answer> {
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const place = await this.#placeFor(request);
      const permission = await mayEnter(this.#rpc, place, request);
      if ("refusal" in permission) return this.#refused(place, permission.refusal);
      const value = place.value(request, this.#bell);
      const { succeeded, responses, header } = await write(this.#rpc, place, permission.guard, value);
      if (!succeeded) {
        const [session, first] = responses;
        if (place.session.learn(session?.response_range) || request.queue) continue;
        const claims = place.line.read(first?.response_range);
        // Nobody is there any more, or it is ours, of an earlier request.
        if (claims.length === 0) continue;
        if (claims[0]?.id === place.id) return this.#found(request, place, claims[0].ticket);
        if (place.exclusive) {
          return this.#refused(place, mismatchOf(claims, place.capacity) ?? { state: "refused" });
        }
        continue;
      }
      const [, own, newest] = responses;
      const ticket = BigInt(own?.response_range?.kvs[0]?.create_revision ?? 0);
      place.ticket = ticket;
      this.#forcing.listen(header.revision);
      const two = place.line.read(newest?.response_range);
      // It was there already, from an earlier request, and others have come since.
      if (two.at(-1)?.id !== place.id) return this.#ask(request, place);
      const ahead = permission.ahead ?? two.slice(0, -1);
      const mismatch = mismatchOf(ahead, place.capacity);
      if (mismatch !== undefined) {
        await this.release(request);
        return mismatch;
      }
      return this.#answer(request, place, ahead, header.revision);
    }
    throw tooBusy(request.name);
  }

  async #placeFor(request: ClaimRequest): Promise<EtcdPlace> {
    const known = this.#places.get(request.id);
    if (known !== undefined && !known.session.gone) return known;
    const place = new EtcdPlace(request.id, this.#root, request, await this.#sessions.withTtl(request.ttlMs));
    this.#places.set(request.id, place);
    return place;
  }

  #refused<T extends Answer>(place: EtcdPlace, refusal: T): T {
    this.#forget(place);
    if (place.doubtful) this.#clearAway(place);
    return refusal;
  }

  #found(request: ClaimRequest, place: EtcdPlace, ticket: bigint): Promise<Answer> {
    place.ticket = ticket;
    return this.#ask(request, place);
  }

  /** Where does my place stand now? Whatever is to be shown of it is changed on the way. */
  async #ask(request: ClaimRequest, place: EtcdPlace): Promise<Answer> {
    const ticket = place.ticket ?? 0n;
    const { key, line } = place;
    place.session.keepFresh();
    const value = place.value(request, this.#bell);
    const reads = [{ request_range: { key, keys_only: true } }, line.ahead(ticket, place)];
    const unchanged = place.written !== undefined && value.equals(place.written);
    const { responses, header } = await this.#rpc.txn(
      unchanged
        ? { success: reads }
        : {
            compare: [isStill(key, ticket)],
            success: [...reads, { request_put: { key, value, lease: place.lease } }],
          },
    );
    const [own, ahead] = responses;
    if (own?.response_range?.kvs[0]?.create_revision !== String(ticket)) {
      this.#forget(place);
      return request.ticket === undefined ? this.#enter(request) : this.#goneAfter(place);
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
    this.#watchBlockers(place, blockers, revision);
    if (blockers.length > 0) {
      place.waited = true;
      return { state: "waiting", ticket, remainingMs: place.remainingMs(), changeInMs: Infinity };
    }
    if (place.grantedAtMs === undefined && !(await this.#granted(request, place)))
      return this.#goneAfter(place);
    return { state: "granted", ticket, remainingMs: place.remainingMs() };
  }

  /** The first granted answer: a fixed or a minimal time begins, and needs a lease of its own. */
  async #granted(request: ClaimRequest, place: EtcdPlace): Promise<boolean> {
    const { key, ticket = 0n, fixed, minHoldMs, waited } = place;
    const atMs = nowMs();
    if (!fixed && minHoldMs === 0) {
      place.grant(atMs);
      // Since when it is held is for people to see; nobody waits for that.
      if (waited) this.#show(place, place.value(request, this.#bell));
      return true;
    }
    const lengthMs = Math.max(request.ttlMs, minHoldMs);
    const { ID: lease, TTL } = await this.#rpc.grantLease(Math.ceil(lengthMs / 1_000));
    const value = place.value(request, this.#bell, Date.now());
    const { succeeded } = await this.#rpc.txn({
      compare: [isStill(key, ticket)],
      success: [{ request_put: { key, value, lease } }],
    });
    if (!succeeded) return false;
    place.grant(atMs);
    place.alone = { lease, untilMs: atMs + Math.min(lengthMs, Number(TTL) * 1_000) };
    place.written = value;
    return true;
  }

  #show(place: EtcdPlace, value: Buffer): void {
    const { key, ticket = 0n, lease } = place;
    place.written = value;
    const compare = [isStill(key, ticket)];
    this.#rpc.txn({ compare, success: [{ request_put: { key, value, lease } }] }).catch(() => undefined);
  }

  async renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const answers = new Map<string, Renewal | Promise<Renewal>>();
    const bySession = new Map<Session, EtcdPlace[]>();
    for (const { id, ticket, ttlMs } of claims) {
      const place = this.#places.get(id);
      if (place === undefined || place.left || place.ticket !== ticket)
        answers.set(id, this.#forcing.goneOf(id));
      else if (place.alone !== undefined) answers.set(id, this.#renewAlone(place, ttlMs));
      else {
        const places = bySession.get(place.session) ?? [];
        places.push(place);
        bySession.set(place.session, places);
      }
    }
    for (const [session, places] of bySession) {
      const beating = heartbeat(this.#rpc, session, places);
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
    this.#forget(place);
    return renewal === "missing" ? this.#goneAfter(place) : renewal;
  }

  /** Its own lease is not extended: when that is about to end, a claim that is renewed goes back to the others. */
  async #renewAlone(place: EtcdPlace, ttlMs: number): Promise<Renewal> {
    const { key, ticket = 0n } = place;
    const back = !place.fixed && place.remainingMs() <= ttlMs;
    const session = back ? await this.#sessions.withTtl(ttlMs) : undefined;
    const { succeeded } = await this.#rpc.txn({
      compare: [isStill(key, ticket)],
      success:
        session === undefined
          ? []
          : [{ request_put: { key, value: place.written ?? Buffer.alloc(0), lease: session.lease } }],
    });
    if (!succeeded) {
      this.#forget(place);
      return this.#goneAfter(place);
    }
    if (session !== undefined) {
      place.session = session;
      place.alone = undefined;
    }
    return { state: "held", remainingMs: place.remainingMs() };
  }

  async release(claim: { readonly name: string; readonly id: string }, force?: Force): Promise<boolean> {
    if (force !== undefined) return this.#forcing.takeAway(claim.name, claim.id, force);
    const place = this.#places.get(claim.id);
    if (place === undefined || place.left) return false;
    try {
      const restMs = place.heldUntilMs() - nowMs();
      if (restMs > 0) return await this.#leaveLater(place, restMs);
      const found = await this.#remove(place);
      this.#forget(place);
      return found;
    } catch (error) {
      this.#clearAway(place);
      throw error;
    }
  }

  /** What could not be given back would last as long as the session, which others may keep: tried until it is. */
  #clearAway(place: EtcdPlace): void {
    if (this.#closed || place.session.gone) return;
    this.#after(Math.max(SHORTEST_RETRY_MS, place.session.ttlMs / 3), () => {
      this.#remove(place).then(
        () => this.#forget(place),
        () => this.#clearAway(place),
      );
    });
  }

  #after(ms: number, work: () => void): void {
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer);
        work();
      },
      Math.min(Math.ceil(ms), LONGEST_TIMER_MS),
    ).unref();
    this.#timers.add(timer);
  }

  /** Its own lease keeps it if this process ends meanwhile; while it runs, it is removed to the moment. */
  async #leaveLater(place: EtcdPlace, restMs: number): Promise<boolean> {
    const { count } = await this.#rpc.range({ key: place.key, keys_only: true });
    if (count === "0") {
      this.#forget(place);
      return false;
    }
    place.left = true;
    this.#after(restMs, () => {
      this.#remove(place).then(
        () => this.#forget(place),
        () => this.#forget(place),
      );
    });
    return true;
  }

  async #remove(place: EtcdPlace): Promise<boolean> {
    if (place.doubtful) await place.session.callOff();
    const { responses } = await this.#rpc.txn({ success: [{ request_delete_range: { key: place.key } }] });
    const { lease } = place.alone ?? {};
    if (lease !== undefined) this.#rpc.revokeLease(lease).catch(() => undefined);
    return responses[0]?.response_delete_range?.deleted === "1";
  }

  #forget(place: EtcdPlace): void {
    place.stopWatching();
    if (this.#places.get(place.id) === place) this.#places.delete(place.id);
  }

  async #goneAfter(place: EtcdPlace): Promise<Gone> {
    this.#forget(place);
    return place.session.gone ? { state: "gone", loss: "session" } : this.#forcing.goneOf(place.id);
  }

  #watchBlockers(place: EtcdPlace, blockers: readonly ListedClaim[], revision: Long): void {
    place.stopWatching();
    const stops = blockers.map(({ kv }) =>
      this.#watcher.watch({
        key: kv.key,
        from: BigInt(revision) + 1n,
        deletionsOnly: true,
        on: () => this.#rings.get(place.id)?.(),
      }),
    );
    place.stopWatching = () => {
      for (const stop of stops) stop();
    };
  }

  #ringGone(id: string, gone: Gone): void {
    const ticket = this.#places.get(id)?.ticket;
    if (ticket !== undefined) this.#rings.get(id)?.({ ...gone, ticket });
  }

  watch(claim: { readonly name: string; readonly id: string }, ring: Ring): Unwatch {
    this.#rings.set(claim.id, ring);
    return () => void this.#rings.delete(claim.id);
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    if ("prefix" in query) {
      yield* readRecords(this.#rpc, this.#root, query.prefix);
      return;
    }
    const record = await readRecord(this.#rpc, this.#root, query.name, query.limit);
    if (record !== undefined) yield record;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#watcher.close();
    const used = new Set([...this.#places.values()].map(({ session }) => session));
    await this.#sessions.close((session) => used.has(session));
    this.#rpc.close();
  }
}
