import { AnyLease, type Frame } from "./any-lease.js";
import { nowMs } from "./clock.js";
import { FifoMutex } from "./concurrency.js";
import { formatMs } from "./duration.js";
import { LockTimeoutError } from "./errors.js";
import type { HeldClaim } from "./held-claim.js";
import { noteText } from "./options.js";

/** One of the classes below. Only locks make leases. */
export type LeaseKind<L extends ClaimLease> = new (
  heldClaim: HeldClaim,
  outer: Frame | undefined,
  onRelease?: () => void,
) => L;

/** A lease that stands on one claim, alone or together with others that entered by it. */
export abstract class ClaimLease extends AnyLease {
  /** @internal */
  readonly frame: Frame;
  /** @internal */
  readonly heldClaim: HeldClaim;
  /** The lease of `all` that it is a part of: not lost track of while one of its parts is in use. @internal */
  whole: AnyLease | undefined;
  /** Made when a call enters again: most leases have none. */
  #children: FifoMutex | undefined;
  readonly #onRelease: (() => void) | undefined;
  /** This lease itself and those that entered by it: its turn ends when all of them have left. */
  #inside = 1;

  constructor(heldClaim: HeldClaim, outer: Frame | undefined, onRelease?: () => void) {
    super();
    this.heldClaim = heldClaim;
    this.frame = { lease: this, outer };
    this.#onRelease = onRelease;
  }

  get name(): string {
    return this.heldClaim.name;
  }

  get signal(): AbortSignal {
    return this.heldClaim.signal;
  }

  /** @internal */
  get holds(): readonly HeldClaim[] {
    return [this.heldClaim];
  }

  /** It stands on a claim that an outer lease has taken. @internal */
  get entered(): boolean {
    return this.#onRelease !== undefined;
  }

  /**
   * Changes what others see of this lease, in `inspect` and in their timeout errors. Rejects if the lease is lost.
   *
   * @example
   * ```ts
   * await locks.mutex("report").run(async (lease) => {
   *   await lease.update({ note: "page 1 of 10" });
   *   await work(lease.signal);
   * });
   * ```
   */
  async update(change: {
    /** As the option `note`: at most 1,000 characters. */
    readonly note: string;
  }): Promise<void> {
    const note = noteText(change.note);
    this.assertHeld();
    await this.heldClaim.show(note);
    this.assertHeld();
  }

  /** It was not all that was needed, so no work was done under it: it goes without a `minHold`. @internal */
  abandon(): Promise<void> {
    if (!this.entered) this.heldClaim.claim.unused = true;
    return this[Symbol.asyncDispose]();
  }

  /** @internal */
  protected leave(): Promise<boolean> {
    this.#exit();
    return this.heldClaim.leave();
  }

  /** What entered by this lease refers to it, so nothing does when it is collected. @internal */
  giveBackLater(): () => Promise<boolean> {
    const { heldClaim } = this;
    const onRelease = this.#onRelease;
    return () => {
      onRelease?.();
      return heldClaim.leave();
    };
  }

  #turns(): FifoMutex {
    this.#children ??= new FifoMutex();
    return this.#children;
  }

  #exit(): void {
    this.#inside--;
    if (this.#inside === 0) this.#onRelease?.();
  }

  /**
   * Enters again inside this lease, at no cost to the engine. Siblings take turns, unless they share anyway.
   * `chain` is where the caller stands: it may have taken other locks since this one, and holds them still.
   * `undefined` if a sibling is in and the caller does not want to wait.
   * @internal
   */
  async reenter<L extends ClaimLease>(
    Kind: LeaseKind<L>,
    chain: Frame | undefined,
    waitMs: number,
    signal: AbortSignal | undefined,
  ): Promise<L | undefined> {
    this.heldClaim.join();
    this.#inside++;
    const startMs = nowMs();
    try {
      const turn = this.heldClaim.exclusive
        ? await this.#turns().take(waitMs, signal, () => this.heldClaim.signal)
        : () => {};
      if (turn !== undefined && this.heldClaim.live) {
        return new Kind(this.heldClaim, chain, () => {
          turn();
          this.#exit();
        });
      }
      turn?.();
      if (!this.heldClaim.live) throw this.heldClaim.lossError();
    } catch (error) {
      this.#exit();
      await this.heldClaim.leave();
      throw error;
    }
    this.#exit();
    await this.heldClaim.leave();
    if (waitMs === 0) return undefined;
    throw siblingTimeout(this.name, nowMs() - startMs);
  }
}

/** An exclusive grant: a mutex, the write side of a read-write lock, or a term of a leader. */
export class Lease extends ClaimLease {
  static override readonly name = "Lease";

  /**
   * The fencing token: greater than that of every grant of this name before it. Pass it to what the lock protects, and
   * let that refuse a token older than the newest it has seen: no lock can stop a paused process from writing late.
   */
  get token(): bigint {
    return this.heldClaim.token;
  }

  override toJSON(): { name: string; token: string; held: boolean; remainingMs: number } {
    const { name, ...rest } = super.toJSON();
    return { name, token: this.token.toString(), ...rest };
  }
}

/**
 * A grant beside others: a reader, or permits of a semaphore. It protects nothing from them, so it has no token to pass to
 * a fence by mistake.
 */
export class SharedLease extends ClaimLease {
  static override readonly name = "SharedLease";

  /** Orders the grants of this name. */
  get ticket(): bigint {
    return this.heldClaim.ticket;
  }

  override toJSON(): { name: string; ticket: string; held: boolean; remainingMs: number } {
    const { name, ...rest } = super.toJSON();
    return { name, ticket: this.ticket.toString(), ...rest };
  }
}

/** It is held by the own call chain, so the holder is known. */
function siblingTimeout(name: string, waitedMs: number): LockTimeoutError {
  const message = `gave up on "${name}" after waiting ${formatMs(waitedMs)}
  this call chain holds it, and a call that entered again by the same lease has not left
  release what was entered with acquire() before entering again, or enter with run()`;
  return new LockTimeoutError(name, message, { blockers: [], position: undefined, waitedMs });
}
