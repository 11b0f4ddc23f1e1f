import { type AcquireRequest, claimRequest } from "./acquire-request.js";
import type { Force, Gone } from "./backend.js";
import { type Owner, tokenOf, WHOLE } from "./claim.js";
import type { ClaimState, Grant, HolderListener } from "./claim-state.js";
import { driftMs, elapsedMs, nowMs, sendingNow } from "./clock.js";
import type { Connection } from "./connection.js";
import { formatMs } from "./duration.js";
import { LeaseLostError, type Loss } from "./errors.js";
import { plainText, quotedText } from "./plain-text.js";

/** A claim that serves several tasks of this process, as the task that holds it sees it. */
export interface Sharing {
  /** The hand-off number of the task that holds it. */
  readonly number: number;
  heldBy(holder: HeldClaim): void;
  /** The holder leaves. Whether the claim stays with this process: for the next task, or for a while. */
  passOn(holder: HeldClaim): boolean;
  /** It is given back, or lost. `released` settles when the engine has heard of it. */
  end(released?: Promise<unknown>): void;
  /** Another process wants it. */
  wanted(): void;
  /** What other processes are about to see of it. */
  ownerShown(note: string): Owner;
}

/**
 * A claim that a task holds: what all leases that entered by it share. It ends when the last of them leaves. Then the
 * claim is given back, or goes on to the next task of this process.
 */
export class HeldClaim implements HolderListener, Grant {
  readonly ticket: bigint;
  readonly token: bigint;
  readonly grantedAtMs = nowMs();
  /** How many callbacks of `run` work under it. */
  running = 0;
  lost: LeaseLostError | undefined;
  /** What others see of it. */
  note: string;
  #users = 1;
  #controller: AbortController | undefined;
  #givenBack: Promise<boolean> | undefined;
  /** It is gone, and the engine is asked why; `false` when that is known. */
  #superseded: Promise<boolean> | undefined;

  constructor(
    readonly connection: Connection,
    readonly claim: ClaimState,
    readonly request: AcquireRequest,
    /** The claim serves other tasks of this process before or after this one. */
    readonly shared?: Sharing,
  ) {
    if (claim.ticket === undefined) throw new Error("a hold needs an answered claim");
    this.ticket = claim.ticket;
    this.token = tokenOf(claim.ticket, shared?.number);
    this.note = request.note;
    claim.heldBy(this, this.grantedAtMs, request);
    shared?.heldBy(this);
    connection.grants.add(this);
    if (this.exclusive) connection.localNames.granted(this);
    connection.renewer.holds(claim);
  }

  get name(): string {
    return this.claim.name;
  }

  /** Made on demand: most leases are never asked for it. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.lost !== undefined) this.#controller.abort(this.lost);
    }
    return this.#controller.signal;
  }

  /** No other claim of this name can be granted beside it. */
  get exclusive(): boolean {
    return this.request.weight === this.request.capacity;
  }

  get whole(): boolean {
    return this.request.weight === WHOLE;
  }

  get ended(): boolean {
    return this.#givenBack !== undefined;
  }

  get live(): boolean {
    return !this.ended && this.lost === undefined && this.#superseded === undefined && this.claim.trusted();
  }

  remainingMs(): number {
    return this.live ? Math.max(0, this.claim.trustedUntilMs() - nowMs()) : 0;
  }

  /** The error of a lease that is not live: also when no timer has had a chance to notice yet. */
  lossError(loss?: Loss): LeaseLostError {
    if (this.lost !== undefined) return this.lost;
    return this.#describe(loss ?? (this.#superseded === undefined ? this.#overrun() : "taken"));
  }

  /** From now on it lasts no longer than this. */
  limit(lastsMs: number): void {
    this.claim.holdLimitMs = Math.min(this.claim.holdLimitMs, nowMs() + lastsMs);
    this.connection.renewer.holds(this.claim);
  }

  join(): void {
    this.#users++;
  }

  leave(): Promise<boolean> {
    this.#users--;
    if (this.#users <= 0) return this.giveBack();
    if (!this.ended) this.#noticeLoss();
    return Promise.resolve(this.live);
  }

  giveBack(): Promise<boolean> {
    this.#givenBack ??= this.#release();
    return this.#givenBack;
  }

  #release(): Promise<boolean> {
    const { connection, claim, shared } = this;
    this.#leaveGrants();
    if (this.#superseded !== undefined) return this.#superseded;
    this.#noticeLoss();
    const wasHeld = this.lost === undefined;
    if (wasHeld && shared?.passOn(this)) {
      // The engine is not asked: it is held for as long as it is trusted.
      return Promise.resolve(this.#tellReleased(true));
    }
    connection.leave(claim);
    if (connection.closed) return Promise.resolve(false);
    if (!wasHeld) {
      // The engine may still have the claim for a moment; no caller needs to wait until it is removed.
      const withdrawn = this.#takenAway() ? undefined : connection.withdraw(claim);
      if (withdrawn !== undefined) connection.inBackground(withdrawn);
      shared?.end(withdrawn);
      return Promise.resolve(false);
    }
    const releasing = connection.release(claim, wasHeld);
    // The next claim of this process is sent behind the release.
    shared?.end(releasing);
    return releasing.then((found) => (found ? this.#tellReleased(true) : this.#wasTaken()));
  }

  async #wasTaken(): Promise<boolean> {
    await this.#learnLoss();
    return this.#tellReleased(false);
  }

  #leaveGrants(): void {
    this.connection.grants.delete(this);
    if (this.exclusive) this.connection.localNames.ended(this);
  }

  #tellReleased(wasHeld: boolean): boolean {
    const { connection, claim } = this;
    if (!connection.events.wants("released")) return wasHeld;
    const heldMs = elapsedMs(this.grantedAtMs);
    const token = String(this.token);
    connection.events.emit({ type: "released", ...connection.about(claim), token, heldMs, wasHeld });
    return wasHeld;
  }

  /** Changes what others see of it. */
  async show(note: string): Promise<void> {
    const { connection, claim, request, shared } = this;
    this.note = note;
    const sent = sendingNow();
    // No longer than a renewal would: what is to end by maxHold must not be kept beyond it.
    const ttlMs = request.fixed ? request.ttlMs : Math.max(1, claim.renewalMs(sent.atMs));
    const owner = shared?.ownerShown(note) ?? connection.owner;
    const answer = await connection.backend.claim({ ...claimRequest(owner, request, claim, note), ttlMs });
    if (answer.state === "granted") claim.acknowledge(answer.ticket, answer.remainingMs, sent);
    else claim.toldGone(answer.state === "gone" ? answer : { state: "gone", loss: "taken" });
  }

  /** A holder that overran and releases in the same turn was not told by any timer: it is told now. */
  #noticeLoss(): void {
    if (this.lost === undefined && !this.claim.trusted()) {
      this.#tell(this.#overrun());
    }
  }

  #overrun(): Loss {
    return this.connection.renewer.overslept() || this.claim.endedBySleep ? "paused" : "expired";
  }

  /** An engine knows only that a claim is not there. If its time was over, that is why. */
  #causeOf({ loss }: Gone): Loss {
    return loss === "taken" && !this.claim.trusted() ? this.#overrun() : loss;
  }

  /** It was not there any more, and no notification has told us: the engine may know why. */
  async #learnLoss(): Promise<void> {
    const { connection, claim } = this;
    // Before the question, whose answer may come when the time is over.
    const cause = this.#causeOf({ state: "gone", loss: "taken" });
    const identity = claim.identity();
    const asked = identity === undefined ? [] : [{ ...identity, ttlMs: claim.ttlMs }];
    const [answer] = await connection.backend.renew(asked).catch(() => []);
    const gone = answer?.state === "gone" ? answer : undefined;
    // It may have been told meanwhile.
    if (this.lost === undefined)
      this.#lost(gone === undefined || gone.loss === "taken" ? cause : gone.loss, gone);
  }

  #takenAway(): boolean {
    const loss = this.lost?.loss;
    return loss === "taken" || loss === "forced" || loss === "session";
  }

  /** From here on nothing is renewed; the signal tells the holder. */
  lose(loss: Loss, told?: Partial<Force>): void {
    if (!this.#tell(loss, told)) return;
    const { connection, claim } = this;
    connection.leave(claim);
    // There is nothing left to give back, also if its holder never says so.
    this.#leaveGrants();
    // But a session that goes on for other claims would keep this one, too.
    const outlived = connection.backend.traits.ttl === "session" && !this.#takenAway();
    if (outlived) connection.inBackground(connection.withdraw(claim));
    this.shared?.end();
  }

  /**
   * A newer grant of this connection has proved that it is gone. From now on it is not held, and its holder is told as
   * soon as the engine has said why: the news that it was forced may come after the grant, or be lost.
   */
  superseded(): void {
    if (this.#superseded !== undefined || this.lost !== undefined || this.ended) return;
    const { connection, claim } = this;
    this.#superseded = this.#learnLoss().then(() => false);
    connection.inBackground(this.#superseded);
    connection.leave(claim);
    this.#leaveGrants();
    this.shared?.end();
  }

  /** The connection closes: the holder is told to stop, and renewal goes on while it does so. */
  close(): void {
    this.#noticeLoss();
    this.#tell("closed");
  }

  #tell(loss: Loss, told?: Partial<Force>): boolean {
    if (this.lost !== undefined || this.ended) return false;
    this.#lost(loss, told);
    return true;
  }

  #lost(loss: Loss, told?: Partial<Force>): void {
    this.lost = this.#describe(loss, told);
    this.connection.events.emit({
      type: "lost",
      ...this.connection.about(this.claim),
      token: String(this.token),
      loss,
      heldMs: elapsedMs(this.grantedAtMs),
      reason: told?.reason,
      by: told?.by,
    });
    this.#controller?.abort(this.lost);
  }

  #describe(loss: Loss, told?: Partial<Force>): LeaseLostError {
    const { claim } = this;
    const by = told?.by === undefined ? "" : ` by ${plainText(told.by)}`;
    const said = told?.reason === undefined ? "" : `: ${quotedText(told.reason)}`;
    // The trust in it ends a little earlier, so that its holder is told in time.
    const isOver = nowMs() >= claim.holdLimitMs - 2 * driftMs(claim.ttlMs);
    const story: Readonly<Record<Loss, string>> = {
      expired: claim.fixed
        ? "its fixed time is over. Give it more time, or let it be renewed"
        : isOver
          ? `its maxHold of ${formatMs(claim.holdLimitMs - this.grantedAtMs)} is over. Finish sooner, or give it a longer maxHold`
          : `it could not be renewed within its ttl of ${formatMs(claim.ttlMs)}, so another holder may be let in now`,
      taken: "the engine no longer has it (flushed, evicted, or lost in a failover)",
      forced: `it was taken away${by}${said}`,
      paused: `this process did not run for longer than its ttl of ${formatMs(claim.ttlMs)} allowed (a pause, a blocked event loop, or a sleeping machine)`,
      session: "the session with the engine is over",
      closed: "this process is shutting down, or has closed its connection",
    };
    // A holder that shares the lock has no fencing token to pass on.
    const fenced = this.whole;
    const which = fenced ? `token ${this.token}` : `ticket ${this.ticket}`;
    const contained = fenced ? "; what it still writes must be refused by its token" : "";
    return new LeaseLostError(
      this.name,
      `lost the lock "${this.name}" (${which}) after ${formatMs(nowMs() - this.grantedAtMs)}: ${story[loss]}. Stop the protected work${contained}.`,
      { loss, token: this.token, reason: told?.reason, by: told?.by },
    );
  }

  // What renewals and notifications say about the claim:

  heldLong(): void {
    const { connection, claim } = this;
    const heldMs = elapsedMs(this.grantedAtMs);
    connection.events.emit({
      type: "long-hold",
      ...connection.about(claim),
      token: String(this.token),
      heldMs,
    });
  }

  expired(paused: boolean): void {
    this.lose(paused ? "paused" : "expired");
  }

  gone(gone: Gone): void {
    this.lose(this.#causeOf(gone), gone);
  }

  wanted(): void {
    this.shared?.wanted();
  }

  notified(): void {
    // A notification may have been missed before the engine listened, and the next renewal may be far away.
    this.connection.renewer.hurry(this.claim);
  }
}
