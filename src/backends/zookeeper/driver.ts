import type { ClaimRequest, Gone, Renewal, RenewRequest } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import {
  type Blockers,
  type Entry,
  type Look,
  type QueueDriver,
  refusalOf,
  renewalOf,
  renewEach,
} from "../session-queue/backend.js";
import { OwnClaims } from "../session-queue/claims.js";
import { CreateClaim, GoneReasons, sessionFor, ZooKeeperClaim } from "./claim.js";
import { againIfExpired, unless } from "./errors.js";
import type { ListedNode } from "./keys.js";
import { ERROR, setData } from "./messages.js";
import type { ZooKeeperSettings } from "./options.js";
import { aheadOf, watchBlockers } from "./queue-view.js";
import { type Session, Sessions } from "./session.js";
import { hasClaimsBehind, tellWanted, WantedWatch } from "./sticky.js";

/**
 * Since when a lock is held is written down for people to see, but only if it is held for some time: on a hot lock it
 * would double what a grant costs.
 */
const SHOWN_AFTER_MS = 100;

const NO_BLOCKERS: Blockers<never> = { blockers: [], unwatch: () => {} };

/** How the claims of one connection are made, looked at, granted, kept and removed on ZooKeeper. */
export class ZooKeeperDriver implements QueueDriver<ZooKeeperClaim, ListedNode> {
  readonly root: string;
  readonly sessions: Sessions;
  readonly claims = new OwnClaims<ZooKeeperClaim>(this);
  readonly #creation: CreateClaim;
  readonly #goneReasons = new GoneReasons((id, gone) => this.claims.lost(id, gone));

  constructor(settings: ZooKeeperSettings) {
    this.root = settings.root;
    this.#creation = new CreateClaim(settings);
    this.sessions = new Sessions(settings, {
      noticed: (session) => this.#readNotices(session),
      reattached: (session) => this.#reattached(session),
      gone: (session) => this.#sessionGone(session),
    });
  }

  prepare(request: ClaimRequest): ZooKeeperClaim | Promise<ZooKeeperClaim> {
    const claimOn = (session: Session) => new ZooKeeperClaim(this.root, request, session);
    const lastsMs = sessionFor(request);
    const session = this.sessions.opened(lastsMs);
    return session === undefined ? this.sessions.lasting(lastsMs).then(claimOn) : claimOn(session);
  }

  /** A claim that only tries, or that is limited by `maxWaiters`, looks before and after it is made. */
  async enter(claim: ZooKeeperClaim, request: ClaimRequest): Promise<Entry<ListedNode>> {
    const { session, parent } = claim;
    if (claim.doubtful && (await this.#creation.find(claim))) return { state: "known" };
    if (!request.queue || request.maxWaiters !== undefined) {
      const refusal = await refusalOf(this, claim, request, await session.queues.latest(parent));
      if (refusal !== undefined) return refusal;
    }
    const ahead = this.#aheadOf(claim, await this.#creation.create(claim, claim.value(request)));
    return ahead === undefined ? { state: "missing" } : { state: "entered", ahead };
  }

  async look(claim: ZooKeeperClaim, request: ClaimRequest): Promise<Look<ListedNode> | undefined> {
    const { session, parent } = claim;
    const value = claim.value(request);
    const reading = session.queues.read(parent);
    if (claim.written === undefined || !value.equals(claim.written)) {
      const writing = session.client.send(setData(claim.path, value));
      await Promise.all([reading, writing]).catch(unless(ERROR.noNode));
      claim.written = value;
    }
    const ahead = this.#aheadOf(claim, await reading);
    return ahead && { ahead };
  }

  /** The claims before it; `undefined` if it is not in the queue itself. */
  #aheadOf(claim: ZooKeeperClaim, queue: readonly ListedNode[]): readonly ListedNode[] | undefined {
    const found = aheadOf(queue, claim);
    for (const { node } of found?.orphans ?? []) {
      claim.session.remove(`${claim.parent}/${node}`).catch(() => undefined);
    }
    return found?.ahead;
  }

  blockers(
    claim: ZooKeeperClaim,
    ahead: readonly ListedNode[],
    notify?: () => void,
  ): Blockers<ListedNode> | Promise<Blockers<ListedNode>> {
    if (ahead.length === 0) return NO_BLOCKERS;
    return watchBlockers(claim.session, claim, ahead, notify);
  }

  grant(claim: ZooKeeperClaim, request: ClaimRequest): true | Promise<true> {
    const { session, waited, fixed, minHoldMs } = claim;
    // A claim that is granted at once was just written; one that waited may have to rely on an old write.
    if (!waited) {
      claim.grant(request.ttlMs);
      return true;
    }
    const grant = (): true => {
      claim.grant(request.ttlMs);
      this.claims.timers.later(SHOWN_AFTER_MS, () => this.#showGrant(claim, request));
      return true;
    };
    const { trustedUntilMs, timeoutMs } = session.client;
    const relies = !fixed && minHoldMs === 0 && trustedUntilMs - nowMs() >= timeoutMs / 3;
    return relies ? grant() : session.beat().then(grant);
  }

  #showGrant(claim: ZooKeeperClaim, request: ClaimRequest): void {
    if (claim.left || !this.claims.has(claim)) return;
    claim.written = claim.value(request);
    // No answer waits for it, and nothing depends on it.
    claim.session.client.send(setData(claim.path, claim.written)).catch(() => undefined);
  }

  async listen(claim: ZooKeeperClaim, onWanted: () => void): Promise<(() => void) | undefined> {
    const watch = new WantedWatch(claim, onWanted);
    const wanted = await watch.look().catch(() => true);
    if (wanted) {
      watch.stop();
      return undefined;
    }
    claim.wantedWatch = watch;
    return () => {
      claim.wantedWatch = undefined;
      watch.stop();
    };
  }

  tellWanted({ node }: ListedNode, { session, parent }: ZooKeeperClaim): Promise<void> {
    return tellWanted(session, `${parent}/${node}`);
  }

  async isThere({ session, path }: ZooKeeperClaim): Promise<boolean> {
    return (await session.look()).has(path);
  }

  async remove(claim: ZooKeeperClaim): Promise<boolean> {
    if (claim.session.gone) return false;
    if (claim.doubtful) await this.#creation.find(claim);
    if (claim.node === undefined) return false;
    return claim.session.remove(claim.path);
  }

  /** See `#reattached`. */
  retryMs(): undefined {
    return undefined;
  }

  async goneOf(id: string): Promise<Gone> {
    const known = this.#goneReasons.of(id);
    if (known !== undefined) return known;
    // It may have been written a moment ago.
    await Promise.all(this.sessions.live.map((session) => this.#goneReasons.read(session)));
    return this.#goneReasons.of(id) ?? { state: "gone", loss: "taken" };
  }

  /** All claims that are renewed in one turn share one write, one look at what is there, and one at each queue. */
  async renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const askedMs = nowMs();
    return renewEach(requests, (request) => againIfExpired(() => this.#renewOne(request, askedMs)));
  }

  async #renewOne(request: RenewRequest, askedMs: number): Promise<Renewal> {
    const { claims } = this;
    const claim = claims.current(request);
    if (claim === undefined) return this.goneOf(request.id);
    const { session } = claim;
    if (session.gone) return claims.goneAfter(claim);
    // A granted claim stays granted, so only waiters have to ask which claims are ahead, and sticky ones which are behind.
    const isHeld = claim.grantedAtMs !== undefined;
    const reading = isHeld && !claim.sticky ? undefined : session.queues.read(claim.parent);
    const [there, listed] = await Promise.all([session.look(), reading]);
    const ahead = isHeld || listed === undefined ? [] : this.#aheadOf(claim, listed);
    if (!there.has(claim.path) || ahead === undefined) return claims.goneAfter(claim);
    const remainingMs = claim.remainingMs(askedMs, isHeld ? Infinity : request.ttlMs);
    const wanted = isHeld && listed !== undefined && hasClaimsBehind(listed, claim);
    return renewalOf(claim, ahead, remainingMs, wanted);
  }

  #readNotices(session: Session): void {
    this.#goneReasons.read(session).catch(() => undefined);
  }

  /** Claims that could not be removed are removed now; and all others look again, because the watches are gone. */
  #reattached(session: Session): void {
    const { claims } = this;
    this.#readNotices(session);
    for (const claim of claims.of(session)) {
      if (claim.unwanted) claims.remove(claim).catch(() => undefined);
      else if (claim.grantedAtMs === undefined) claims.notify(claim);
      else claim.wantedWatch?.lookAgain();
    }
  }

  #sessionGone(session: Session): void {
    const { claims } = this;
    const gone: Gone = { state: "gone", loss: "session" };
    for (const claim of claims.of(session)) {
      this.#goneReasons.add(claim.id, gone);
      if (claim.ticket === undefined) claims.forget(claim);
      else claims.lost(claim.id, gone);
    }
  }

  close(inUse: ReadonlySet<Session>): Promise<void> {
    return this.sessions.close(inUse);
  }
}
