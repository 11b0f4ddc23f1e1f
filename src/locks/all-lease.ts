import { FirstAbort } from "../core/abort.js";
import { AnyLease, type Frame } from "../core/any-lease.js";
import type { HeldClaim } from "../core/held-claim.js";
import type { ClaimLease } from "../core/lease.js";

/** Several leases as one: it is held while all of them are, and given back as a whole. */
export class AllLease<P extends readonly ClaimLease[] = readonly ClaimLease[]> extends AnyLease {
  static override readonly name = "AllLease";

  /** The leases of the single locks, in the order in which they were named. */
  readonly parts: P;
  readonly name: string;
  /** @internal */
  readonly frame: Frame;
  /** @internal */
  readonly holds: readonly HeldClaim[];
  #lost: FirstAbort | undefined;

  /** Only locks make leases. */
  constructor(name: string, parts: P) {
    super();
    this.name = name;
    this.parts = parts;
    this.holds = parts.map(({ heldClaim }) => heldClaim);
    this.frame = chained(parts);
    for (const part of parts) part.whole = this;
  }

  get signal(): AbortSignal {
    if (this.#lost === undefined) {
      this.#lost = new FirstAbort();
      for (const part of this.parts) this.#lost.add(part.signal);
    }
    return this.#lost.signal;
  }

  /** Also if one of them cannot be given back, the others are. @internal */
  protected async leave(): Promise<boolean> {
    const left = await Promise.allSettled(this.parts.map((part) => part.release()));
    this.#lost?.end();
    for (const one of left) if (one.status === "rejected") throw one.reason;
    return left.every((one) => one.status === "fulfilled" && one.value);
  }

  /** @internal */
  giveBackLater(): () => Promise<boolean> {
    const parts = this.parts.map((part) => part.giveBackLater());
    return async () => (await Promise.all(parts.map((giveBack) => giveBack()))).every(Boolean);
  }

  override toJSON(): { name: string; parts: readonly object[]; held: boolean; remainingMs: number } {
    const { name, ...rest } = super.toJSON();
    return { name, parts: this.parts.map((part) => part.toJSON()), ...rest };
  }
}

/** All of them in one chain, so that each is found by a call that asks for it inside. */
function chained(parts: readonly ClaimLease[]): Frame {
  let frame: Frame | undefined;
  for (const part of parts) {
    if (frame !== undefined) part.frame.outer = frame;
    frame = part.frame;
  }
  if (frame === undefined) throw new Error("a lease of all has parts");
  return frame;
}
