import { randomBytes } from "node:crypto";
import type { ClaimRequest, Gone, Renewal, RenewRequest } from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import { nowMs, sendingNow } from "../../core/clock.js";
import { backendError } from "../../core/errors.js";
import {
  type Blockers,
  type Entry,
  type Look,
  type QueueDriver,
  renewalOf,
  renewEach,
} from "../session-queue/backend.js";
import { OwnClaims } from "../session-queue/claims.js";
import { EtcdClaim, enterQueue, goneOf } from "./claim.js";
import { isAsOf, isStill, type ListedKey } from "./keys.js";
import { MOST_QUESTIONS } from "./messages.js";
import type { EtcdSettings } from "./options.js";
import { EtcdRpc } from "./rpc.js";
import { type Session, Sessions, textOf } from "./session.js";
import { listen, tellWanted } from "./sticky.js";
import { Watcher } from "./watcher.js";

const SHORTEST_RETRY_MS = 500;

type Beat = Promise<ReadonlyMap<EtcdClaim, Renewal>>;

/** How the claims of one connection are made, looked at, granted, kept and removed on etcd. */
export class EtcdDriver implements QueueDriver<EtcdClaim, ListedKey> {
  readonly root: string;
  /** Names the keys by which this connection is told that a claim was taken away. */
  readonly connectionId = randomBytes(9).toString("base64url");
  readonly rpc: EtcdRpc;
  readonly watcher: Watcher;
  readonly sessions: Sessions;
  /** Of claims that were taken away; see claim.ts. */
  watchesNotices = false;
  readonly claims = new OwnClaims<EtcdClaim>(this);

  constructor(settings: EtcdSettings) {
    this.root = settings.root;
    this.rpc = new EtcdRpc(settings, () => this.watcher.renew());
    this.watcher = new Watcher(this.rpc);
    this.sessions = new Sessions(this.rpc, settings.root);
  }

  async prepare(request: ClaimRequest): Promise<EtcdClaim> {
    return new EtcdClaim(this.root, request, await this.sessions.withTtl(request.ttlMs));
  }

  enter(claim: EtcdClaim, request: ClaimRequest, attempt: number): Promise<Entry<ListedKey>> {
    return enterQueue(this, claim, request, attempt);
  }

  async look(claim: EtcdClaim, request: ClaimRequest): Promise<Look<ListedKey> | undefined> {
    const { key, queue, ticket = 0n } = claim;
    claim.session.keepFresh();
    const value = claim.value(request, this.connectionId);
    const reads = [{ request_range: { key, keys_only: true } }, queue.ahead(ticket, claim)];
    const unchanged = claim.written !== undefined && value.equals(claim.written);
    const { responses } = await this.rpc.txn(
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
      // It may be made anew: first, no request of before may come true any more.
      if (request.ticket === undefined) await claim.cancelPending();
      return undefined;
    }
    claim.written = value;
    return { ahead: queue.read(ahead?.response_range), revision: kv.mod_revision };
  }

  blockers(claim: EtcdClaim, ahead: readonly ListedKey[], notify?: () => void): Blockers<ListedKey> {
    const blockers = worthWatching(ahead, claim.weight, claim.capacity);
    const watched = notify === undefined ? [] : blockers;
    const stops = watched.map(({ kv }) =>
      this.watcher.watch({ key: kv.key, created: kv.create_revision, on: () => notify?.() }),
    );
    return {
      blockers,
      unwatch: () => {
        for (const stop of stops) stop();
      },
    };
  }

  /**
   * A fixed or a minimal time needs a lease of its own. The claim moves there only if nothing has been done to it
   * since we looked, or a request that is delivered late would move it to a lease that ends earlier.
   */
  async grant(
    claim: EtcdClaim,
    request: ClaimRequest,
    { revision = "0" }: Look<ListedKey>,
  ): Promise<boolean> {
    const { key, ticket = 0n, fixed, minHoldMs } = claim;
    const sent = sendingNow();
    if (!fixed && minHoldMs === 0) {
      claim.grant(sent.atMs);
      if (!claim.waited) return true;
      // Since when it is held is for people to see, so the answer does not wait for it.
      const value = claim.value(request, this.connectionId);
      claim.written = value;
      const success = [{ request_put: { key, value, ignore_lease: true } }] as const;
      this.rpc.txn({ compare: [isStill(key, ticket)], success }).catch(() => undefined);
      return true;
    }
    const lengthMs = Math.max(request.ttlMs, minHoldMs);
    const { ID: lease, TTL } = await this.rpc.grantLease(Math.ceil(lengthMs / 1_000));
    const value = claim.value(request, this.connectionId, true);
    const { succeeded } = await this.rpc.txn({
      compare: [isAsOf(key, revision)],
      success: [{ request_put: { key, value, lease } }],
    });
    if (!succeeded) {
      this.rpc.revokeLease(lease).catch(() => undefined);
      return false;
    }
    claim.grant(sent.atMs);
    claim.ownLease = { id: lease, sent, lengthMs: Math.min(lengthMs, Number(TTL) * 1_000) };
    claim.written = value;
    return true;
  }

  listen(claim: EtcdClaim, onWanted: () => void): Promise<(() => void) | undefined> {
    return listen(this, claim, onWanted);
  }

  tellWanted(holder: ListedKey): Promise<void> {
    return tellWanted(this.rpc, holder);
  }

  async isThere({ key }: EtcdClaim): Promise<boolean> {
    return (await this.rpc.range({ key, keys_only: true })).count !== "0";
  }

  async remove(claim: EtcdClaim): Promise<boolean> {
    await claim.cancelPending();
    const { responses } = await this.rpc.txn({ success: [{ request_delete_range: { key: claim.key } }] });
    if (claim.ownLease !== undefined) this.rpc.revokeLease(claim.ownLease.id).catch(() => undefined);
    return responses[0]?.response_delete_range?.deleted === "1";
  }

  retryMs({ session }: EtcdClaim): number {
    return Math.max(SHORTEST_RETRY_MS, session.ttlMs / 3);
  }

  goneOf(id: string): Promise<Gone> {
    return goneOf(this, id);
  }

  forgotten(claim: EtcdClaim): void {
    if (claim.doubtful && !claim.session.gone) this.claims.removeInBackground(claim);
  }

  /** One heartbeat for all claims that share a session; the few with a lease of their own by themselves. */
  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const { claims } = this;
    const bySession = new Map<Session, EtcdClaim[]>();
    for (const request of requests) {
      const claim = claims.current(request);
      if (claim === undefined || claim.ownLease !== undefined) continue;
      const sharing = bySession.get(claim.session) ?? [];
      sharing.push(claim);
      bySession.set(claim.session, sharing);
    }
    const beats = new Map<Session, Beat>();
    for (const [session, sharing] of bySession) beats.set(session, this.#heartbeat(session, sharing));
    return renewEach(requests, async (request) => {
      const claim = claims.current(request);
      if (claim === undefined) return this.goneOf(request.id);
      const beat = claim.ownLease === undefined ? beats.get(claim.session) : undefined;
      if (beat === undefined) return this.#renewOwnLease(claim, request.ttlMs);
      const renewal = (await beat).get(claim);
      if (renewal !== undefined) return renewal;
      // A server that lags behind may not see it: a holder that is told of a loss must leave no claim.
      if (!claim.session.gone) claims.removeInBackground(claim);
      return claims.goneAfter(claim);
    });
  }

  /**
   * One refreshing for all claims of a session; it has no answer for those that are not there. A granted claim stays
   * granted, but a sticky one may be wanted; a waiting one may be granted now.
   */
  async #heartbeat(session: Session, claims: readonly EtcdClaim[]): Beat {
    const renewals = new Map<EtcdClaim, Renewal>();
    const madeMs = Math.max(...claims.map((claim) => claim.madeMs));
    const keys = session.gone ? undefined : await session.inventory(madeMs);
    if (keys === undefined) return renewals;
    const remainingMs = session.remainingMs();
    const open: EtcdClaim[] = [];
    for (const claim of claims) {
      // It has got a lease of its own while we asked.
      if (claim.ownLease !== undefined)
        renewals.set(claim, { state: "held", remainingMs: claim.remainingMs() });
      else if (!keys.has(textOf(claim.key))) continue;
      else if (claim.grantedAtMs === undefined || claim.sticky) open.push(claim);
      else renewals.set(claim, renewalOf(claim, [], remainingMs));
    }
    for (let from = 0; from < open.length; from += MOST_QUESTIONS) {
      const some = open.slice(from, from + MOST_QUESTIONS).map((claim) => {
        const isHeld = claim.grantedAtMs !== undefined;
        const held = { request_range: claim.queue.firstTwo() };
        return { claim, isHeld, question: isHeld ? held : claim.queue.ahead(claim.ticket ?? 0n, claim) };
      });
      const { responses } = await this.rpc.txn({ success: some.map(({ question }) => question) });
      for (const [index, { claim, isHeld }] of some.entries()) {
        const claims = claim.queue.read(responses[index]?.response_range);
        const wanted = isHeld && claims.length > 1;
        const ahead = isHeld ? [] : claims;
        renewals.set(claim, renewalOf(claim, ahead, remainingMs, wanted));
      }
    }
    return renewals;
  }

  /** Its own lease is not extended: when that is about to end, a claim that is renewed goes back to the others. */
  async #renewOwnLease(claim: EtcdClaim, ttlMs: number): Promise<Renewal> {
    const { key, ticket = 0n } = claim;
    const back = !claim.fixed && claim.remainingMs() <= ttlMs;
    const session = back ? await this.#lasting(ttlMs) : undefined;
    const value = claim.written ?? Buffer.alloc(0);
    const move = session && { request_put: { key, value, lease: session.lease } };
    const look = claim.sticky ? { request_range: claim.queue.firstTwo() } : undefined;
    const { succeeded, responses } = await this.rpc.txn({
      compare: [isStill(key, ticket)],
      success: [move, look].filter((part) => part !== undefined),
    });
    if (!succeeded) return this.claims.goneAfter(claim);
    if (session !== undefined) {
      claim.session = session;
      claim.madeMs = nowMs();
      claim.ownLease = undefined;
    }
    const claims = look === undefined ? [] : claim.queue.read(responses.at(-1)?.response_range);
    return renewalOf(claim, [], claim.remainingMs(), claims.length > 1);
  }

  /** If this process ends right after the move, the claim must stay for as long as its own lease would have lasted. */
  async #lasting(ttlMs: number): Promise<Session> {
    const session = await this.sessions.withTtl(ttlMs);
    if (await session.refresh()) return session;
    throw backendError("the session of etcd has just ended.", { retryable: true });
  }

  async close(inUse: ReadonlySet<Session>): Promise<void> {
    this.watcher.close();
    await this.sessions.close(inUse);
    this.rpc.close();
  }
}
