import type { Ask } from "./ask.js";
import type { Force, Gone } from "./backend.js";
import { tokenOf, WHOLE } from "./claim.js";
import { nowMs } from "./clock.js";
import type { Connection } from "./connection.js";
import { formatMs } from "./duration.js";
import { LeaseLostError, type Loss } from "./errors.js";
import type { Place, PlaceListener } from "./place.js";
import { plainText, quotedText } from "./plain-text.js";

/** A granted claim: what all leases that entered by it share. It ends when the last of them leaves. */
export class Hold implements PlaceListener {
  readonly ticket: bigint;
  readonly token: bigint;
  readonly grantedAtMs = nowMs();
  /** How many callbacks of `run` work under it. */
  running = 0;
  lost: LeaseLostError | undefined;
  #users = 1;
  #controller: AbortController | undefined;
  #givenBack: Promise<boolean> | undefined;

  constructor(
    readonly connection: Connection,
    readonly place: Place,
    readonly ask: Ask,
  ) {
    if (place.ticket === undefined) throw new Error("a hold needs an answered claim");
    this.ticket = place.ticket;
    this.token = tokenOf(place.ticket);
    place.held = true;
    place.heldSinceMs = this.grantedAtMs;
    place.holdLimitMs = this.grantedAtMs + ask.maxHoldMs;
    place.longHoldAtMs = this.grantedAtMs + ask.longHoldMs;
    place.listener = this;
    connection.holds.add(this);
    connection.keeper.holds(place);
  }

  get name(): string {
    return this.place.name;
  }

  /** Made on demand: most leases are never asked for it. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.lost !== undefined) this.#controller.abort(this.lost);
    }
    return this.#controller.signal;
  }

  /** Nobody else can hold anything of this name. */
  get exclusive(): boolean {
    return this.ask.weight === this.ask.capacity;
  }

  get ended(): boolean {
    return this.#givenBack !== undefined;
  }

  get live(): boolean {
    return !this.ended && this.lost === undefined && this.place.trusted();
  }

  remainingMs(): number {
    return this.live ? Math.max(0, this.place.trustedUntilMs() - nowMs()) : 0;
  }

  /** The error of a lease that is not live: also when no timer has had a chance to notice yet. */
  lossError(loss?: Loss): LeaseLostError {
    if (this.lost !== undefined) return this.lost;
    return this.#describe(loss ?? this.#overrun());
  }

  /** From now on it lasts no longer than this. */
  limit(lastsMs: number): void {
    this.place.holdLimitMs = Math.min(this.place.holdLimitMs, nowMs() + lastsMs);
    this.connection.keeper.holds(this.place);
  }

  join(): void {
    this.#users++;
  }

  leave(): Promise<boolean> {
    this.#users--;
    if (!this.ended) this.#noticeLoss();
    return this.#users > 0 ? Promise.resolve(this.live) : this.giveBack();
  }

  giveBack(): Promise<boolean> {
    this.#givenBack ??= this.#release();
    return this.#givenBack;
  }

  async #release(): Promise<boolean> {
    const { connection, place } = this;
    connection.holds.delete(this);
    this.#noticeLoss();
    const wasHeld = this.lost === undefined && place.trusted();
    connection.leave(place);
    if (connection.closed) return false;
    if (!wasHeld) {
      // The engine may still have the claim for a moment; nobody needs to wait for the tidying up.
      if (!this.#takenAway()) connection.inBackground(connection.withdraw(place));
      return false;
    }
    const found = await connection.release(place);
    if (!found) await this.#learnLoss();
    if (connection.events.wants("released")) {
      const heldMs = nowMs() - this.grantedAtMs;
      connection.events.emit({
        type: "released",
        ...connection.about(place),
        token: String(this.token),
        heldMs,
        wasHeld: found,
      });
    }
    return found;
  }

  /** Whoever overran and gives back in the same turn was not told by any timer: it is told now. */
  #noticeLoss(): void {
    if (this.lost === undefined && !this.place.trusted()) {
      this.#tell(this.#overrun());
    }
  }

  #overrun(): Loss {
    return this.connection.keeper.overslept() || this.place.endedBySleep ? "paused" : "expired";
  }

  /** It was not there any more, and nobody has told us: the engine may know why. */
  async #learnLoss(): Promise<void> {
    const { connection, place } = this;
    const claim = place.claim();
    const asked = claim === undefined ? [] : [{ ...claim, ttlMs: place.ttlMs }];
    const [answer] = await connection.backend.renew(asked).catch(() => []);
    const gone = answer?.state === "gone" ? answer : undefined;
    this.#lost(gone?.loss ?? "taken", gone);
  }

  #takenAway(): boolean {
    const loss = this.lost?.loss;
    return loss === "taken" || loss === "forced" || loss === "session";
  }

  /** From here on nothing is renewed; the signal tells the holder. */
  lose(loss: Loss, told?: Partial<Force>): void {
    if (!this.#tell(loss, told)) return;
    const { connection, place } = this;
    connection.leave(place);
    // There is nothing left to give back, also if its holder never says so.
    connection.holds.delete(this);
    // But a session that goes on for other claims would keep this one, too.
    const outlived = connection.backend.traits.ttl === "session" && !this.#takenAway();
    if (outlived) connection.inBackground(connection.withdraw(place));
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
      ...this.connection.about(this.place),
      token: String(this.token),
      loss,
      heldMs: nowMs() - this.grantedAtMs,
      reason: told?.reason,
      by: told?.by,
    });
    this.#controller?.abort(this.lost);
  }

  #describe(loss: Loss, told?: Partial<Force>): LeaseLostError {
    const { place } = this;
    const by = told?.by === undefined ? "" : ` by ${plainText(told.by)}`;
    const said = told?.reason === undefined ? "" : `: ${quotedText(told.reason)}`;
    const limited = place.fixed || nowMs() >= place.holdLimitMs;
    const story: Readonly<Record<Loss, string>> = {
      expired: limited
        ? "its fixed time is over. Give it more time, or let it be renewed"
        : `it could not be renewed within its ttl of ${formatMs(place.ttlMs)}, so somebody else may be let in now`,
      taken: "the engine no longer has it (flushed, evicted, or lost in a failover)",
      forced: `it was taken away${by}${said}`,
      paused: `this process did not run for longer than its ttl of ${formatMs(place.ttlMs)} allowed (a pause, a blocked event loop, or a sleeping machine)`,
      session: "the session with the engine is over",
      closed: "this process is shutting down, or has closed its connection",
    };
    // Whoever shares it with others has no token to pass on.
    const fenced = this.ask.weight === WHOLE;
    const which = fenced ? `token ${this.token}` : `ticket ${this.ticket}`;
    const contained = fenced ? "; what it still writes must be refused by its token" : "";
    return new LeaseLostError(
      this.name,
      `lost the lock "${this.name}" (${which}) after ${formatMs(nowMs() - this.grantedAtMs)}: ${story[loss]}. Stop the protected work${contained}.`,
      { loss, token: this.token, reason: told?.reason, by: told?.by },
    );
  }

  // What the keeper and the bell say about the place:

  heldLong(): void {
    const { connection, place } = this;
    const heldMs = nowMs() - this.grantedAtMs;
    connection.events.emit({
      type: "long-hold",
      ...connection.about(place),
      token: String(this.token),
      heldMs,
    });
  }

  expired(paused: boolean): void {
    this.lose(paused ? "paused" : "expired");
  }

  gone(gone: Gone): void {
    this.lose(gone.loss, gone);
  }

  granted(): void {
    // Known already.
  }

  rung(): void {
    // A notification may have been missed before the engine listened, and the next renewal may be far away.
    this.connection.keeper.hurry(this.place);
  }
}
