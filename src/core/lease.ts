import { inspect } from "node:util";
import { claimRequest } from "./ask.js";
import { nowMs, sendingNow } from "./clock.js";
import { formatMs } from "./duration.js";
import { invalidOption, LockError, LockTimeoutError } from "./errors.js";
import type { Hold } from "./hold.js";
import { noteText } from "./options.js";
import { Turns } from "./turns.js";

/** A lease and the leases of the same call chain around it. */
export interface Frame {
  readonly lease: Lease;
  outer: Frame | undefined;
}

/** An exclusive grant. There is nothing to release without one, and no way to forge one. */
export class Lease {
  /** @internal */
  readonly frame: Frame;
  /** @internal */
  readonly hold: Hold;
  readonly #children = new Turns();
  readonly #onRelease: (() => void) | undefined;
  #released: Promise<boolean> | undefined;
  /** This lease itself and those that entered by it: its turn ends when all of them have left. */
  #inside = 1;

  /** Only locks make leases. */
  constructor(hold: Hold, outer: Frame | undefined, onRelease?: () => void) {
    this.hold = hold;
    this.frame = { lease: this, outer };
    this.#onRelease = onRelease;
  }

  get name(): string {
    return this.hold.name;
  }

  /** Greater than the token of every grant before it; pass it to what the lock protects. */
  get token(): bigint {
    return this.hold.token;
  }

  /** Aborts with a `LeaseLostError` as soon as this holder can no longer be sure. */
  get signal(): AbortSignal {
    return this.hold.signal;
  }

  /** Compares clocks at each look, so it says no at the first look after a pause. */
  get held(): boolean {
    return this.#released === undefined && this.hold.live;
  }

  /** @internal */
  get released(): boolean {
    return this.#released !== undefined;
  }

  /** How long this lease can be trusted if it were not renewed any more. */
  remainingMs(): number {
    return this.#released === undefined ? this.hold.remainingMs() : 0;
  }

  assertHeld(): void {
    if (this.#released !== undefined) {
      throw new LockError("closed", `the lease on "${this.name}" was released before.`, { name: this.name });
    }
    if (!this.hold.live) throw this.hold.lossError();
  }

  /** Changes what others see of this lease. */
  async update(change: { readonly note: string }): Promise<void> {
    const note = noteText(change.note);
    this.assertHeld();
    const { connection, place, ask } = this.hold;
    const sent = sendingNow();
    // No longer than a renewal would: what is to end by maxHold must not be kept beyond it.
    const ttlMs = ask.fixed ? ask.ttlMs : Math.max(1, place.renewalMs(sent.atMs));
    const answer = await connection.backend.claim({ ...claimRequest(connection, ask, place, note), ttlMs });
    if (answer.state === "granted") place.acknowledge(answer.ticket, answer.remainingMs, sent);
    else this.hold.gone(answer.state === "gone" ? answer : { state: "gone", loss: "taken" });
    this.assertHeld();
  }

  /** Idempotent. Says whether the claim was still ours. */
  release(): Promise<boolean> {
    this.#released ??= this.#leave();
    return this.#released;
  }

  #leave(): Promise<boolean> {
    this.#exit();
    return this.hold.leave();
  }

  #exit(): void {
    this.#inside--;
    if (this.#inside === 0) this.#onRelease?.();
  }

  /** A failed release is an event here, as in `run`: the work is done, and the ttl ends the claim. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.release();
    } catch (error) {
      this.hold.connection.releaseFailed(this.name, error);
    }
  }

  /** What it stands on is not shown: the id of a claim is a capability. */
  [inspect.custom](): string {
    return `Lease ${JSON.stringify(this)}`;
  }

  toJSON(): { name: string; token: string; held: boolean; remainingMs: number } {
    const remainingMs = Math.round(this.remainingMs());
    return { name: this.name, token: this.token.toString(), held: this.held, remainingMs };
  }

  /**
   * Enters again inside this lease, at no cost to the engine. Siblings take turns. `undefined` if a
   * sibling is in and the caller does not want to wait.
   * @internal
   */
  async reenter(waitMs: number, signal: AbortSignal | undefined): Promise<Lease | undefined> {
    this.hold.join();
    this.#inside++;
    const startMs = nowMs();
    try {
      const turn = await this.#children.take(waitMs, signal, () => this.hold.signal);
      if (turn !== undefined && this.hold.live) {
        return new Lease(this.hold, this.frame, () => {
          turn();
          this.#exit();
        });
      }
      turn?.();
      if (!this.hold.live) throw this.hold.lossError();
    } catch (error) {
      this.#exit();
      await this.hold.leave();
      throw error;
    }
    this.#exit();
    await this.hold.leave();
    if (waitMs === 0) return undefined;
    throw siblingTimeout(this.name, nowMs() - startMs);
  }
}

/** It is held by the own call chain, so who holds it is no news. */
function siblingTimeout(name: string, waitedMs: number): LockTimeoutError {
  const message = `gave up on "${name}" after waiting ${formatMs(waitedMs)}
  this call chain holds it, and somebody who entered again by the same lease has not left
  release what was entered with acquire() before entering again, or enter with run()`;
  return new LockTimeoutError(name, message, { blockers: [], place: undefined, waitedMs });
}

/** Only a lease of ours can be passed on, and only while it is held. */
export function frameOf(within: unknown): Frame {
  if (!(within instanceof Lease))
    throw invalidOption("within: give the lease to enter by, or null to stand outside.");
  if (within.released) throw invalidOption(`within: the lease on "${within.name}" was released before.`);
  within.assertHeld();
  return within.frame;
}
