import { inspect } from "node:util";
import { invalidOption, type LeaseLostError, LockError, type Loss } from "./errors.js";
import type { HeldClaim } from "./held-claim.js";
import type { Leaks } from "./leaks.js";
import { plainText } from "./plain-text.js";

/** A lease and the leases of the same call chain around it. */
export interface Frame {
  readonly lease: AnyLease;
  outer: Frame | undefined;
}

/** What every holder has. There is nothing to release without one, and no way to forge one. */
export abstract class AnyLease {
  /** The whole name of the lock, with its scope: parts are joined by `:`. */
  abstract readonly name: string;
  /**
   * Aborts with a `LeaseLostError` as soon as this holder can no longer be sure. Pass it to what the work calls. While the
   * event loop is blocked it cannot abort: ask `held` after long computations.
   */
  abstract readonly signal: AbortSignal;
  /** Aborts as soon as `close` is called on its connection: time to finish. `signal` follows after `drain`. */
  get closing(): AbortSignal {
    const [first] = this.holds as readonly [HeldClaim];
    return first.connection.closing;
  }

  /** Where it stands in its call chain. @internal */
  abstract readonly frame: Frame;
  /** The granted claims that it stands on. @internal */
  abstract readonly holds: readonly HeldClaim[];
  #released: Promise<boolean> | undefined;
  #watchedBy: Leaks | undefined;

  /**
   * Whether this holder may go on. It compares clocks at each look, so it says no at the first look after a pause. The
   * process can still be paused right after the look: what must not be written late is protected by the token.
   */
  get held(): boolean {
    return this.#released === undefined && this.holds.every((heldClaim) => heldClaim.live);
  }

  /** @internal */
  get released(): boolean {
    return this.#released !== undefined;
  }

  /**
   * How long this lease can be trusted if it were not renewed any more.
   *
   * @example
   * ```ts
   * await locks.mutex("report").run(async (lease) => {
   *   if (lease.remainingMs() > 1_000) await work();
   * });
   * ```
   */
  remainingMs(): number {
    if (this.#released !== undefined) return 0;
    return Math.min(...this.holds.map((heldClaim) => heldClaim.remainingMs()));
  }

  /**
   * Throws if the lease is lost (`LeaseLostError`) or was released (`closed`). Call it right before what cannot be undone.
   *
   * @example
   * ```ts
   * await locks.mutex("report").run(async (lease) => {
   *   await work();
   *   lease.assertHeld();
   *   await work();
   * });
   * ```
   */
  assertHeld(): void {
    if (this.#released !== undefined) {
      throw new LockError("closed", `the lease on "${this.name}" was released before.`, { name: this.name });
    }
    const ended = this.holds.find((heldClaim) => !heldClaim.live);
    if (ended !== undefined) throw ended.lossError();
  }

  /** The loss that its holder was told of, or has to be told of. @internal */
  lossError(loss?: Loss): LeaseLostError {
    const [first] = this.holds as readonly [HeldClaim];
    const lost =
      this.holds.find((heldClaim) => heldClaim.lost !== undefined) ??
      this.holds.find((heldClaim) => !heldClaim.live);
    return (lost ?? first).lossError(loss);
  }

  /**
   * Gives the lock back. Idempotent. Says whether the claim was still ours: `false` means that another holder may have
   * been let in before. Inside `run` it is not needed.
   *
   * @example
   * ```ts
   * const lease = await locks.mutex("report").acquire();
   * try {
   *   await work(lease.signal);
   * } finally {
   *   await lease.release();
   * }
   * ```
   */
  release(): Promise<boolean> {
    if (this.#released === undefined) {
      if (this.#watchedBy !== undefined) this.#watchedBy.released(this);
      this.#released = this.leave();
    }
    return this.#released;
  }

  /** @internal */
  protected abstract leave(): Promise<boolean>;

  /** What gives it back, without a reference to the lease. @internal */
  abstract giveBackLater(): () => Promise<boolean>;

  /** From now on a leak of it is noticed. @internal */
  watchedBy(leaks: Leaks, here: ReturnType<Leaks["stackHere"]>): void {
    this.#watchedBy = leaks;
    leaks.watch(this, here);
  }

  /** A failed release is an event here, as in `run`: the work is done, and the ttl ends the claim. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.release();
    } catch (error) {
      const [heldClaim] = this.holds;
      heldClaim?.connection.releaseFailed(heldClaim.claim, error);
    }
  }

  /** What it stands on is not shown: the id of a claim is a capability. */
  [inspect.custom](): string {
    return plainText(`${this.constructor.name} ${JSON.stringify(this)}`);
  }

  /** For logs and for other programs. A token is a decimal string there, because JSON has no `bigint`. */
  toJSON(): { name: string; held: boolean; remainingMs: number } {
    return { name: this.name, held: this.held, remainingMs: Math.round(this.remainingMs()) };
  }
}

/** Only a lease of ours can be passed on, and only while it is held. */
export function frameOf(within: unknown): Frame {
  if (!(within instanceof AnyLease))
    throw invalidOption("within: give the lease to enter by, or null to stand outside.");
  if (within.released) throw invalidOption(`within: the lease on "${within.name}" was released before.`);
  within.assertHeld();
  return within.frame;
}
