import { AnyLease, type Frame } from "../core/any-lease.js";
import { nowMs } from "../core/clock.js";
import type { Connection } from "../core/connection.js";
import { invalidOption, isLockError, LockTimeoutError } from "../core/errors.js";
import type { HeldClaim } from "../core/held-claim.js";
import type { ClaimLease } from "../core/lease.js";
import { type AcquireOptions, type Defaults, type ResolvedOptions, readOptions } from "../core/options.js";
import { chainOf, namesInChain } from "../core/reentrancy.js";
import { FirstAbort } from "../core/timer.js";
import { Holdable, isTaken, type Lockable, type Taken } from "./lockable.js";

const MOST_PARTS = 1_000;

// biome-ignore lint/suspicious/noExplicitAny: whatever options a kind of lock adds, all of them are Lockable
export type AnyLockable = Lockable<any, any>;

/** The leases of those locks, in the same order. */
export type PartsOf<T extends readonly AnyLockable[]> = {
  readonly [K in keyof T]: T[K] extends Lockable<infer L extends ClaimLease, infer _O> ? L : never;
};

type Part = Holdable<ClaimLease>;

/**
 * Several locks of any kinds as one: all or nothing. They are taken one after the other in the order of the bytes
 * of their names, so callers that take several in this way are never in a deadlock.
 */
export class AllLock<T extends readonly AnyLockable[]> extends Holdable<AllLease<PartsOf<T>>> {
  readonly name: string;
  /** @internal */
  readonly connection: Connection;
  readonly #parts: readonly Part[];
  readonly #inOrder: readonly Part[];
  readonly #defaults: Defaults;

  constructor(connection: Connection, locks: T, defaults: Defaults) {
    super();
    this.#parts = partsOf(connection, locks);
    this.#inOrder = [...this.#parts].sort((a, b) => compareBytes(a.name, b.name));
    this.name = this.#parts.map(({ name }) => name).join(" + ");
    this.connection = connection;
    this.#defaults = defaults;
  }

  /** @internal */
  async enter(options: AcquireOptions = {}): Promise<AllLease<PartsOf<T>> | Taken> {
    const ask = readOptions(
      { name: this.name, kind: "mutex", weight: 1, capacity: 1 },
      options,
      this.#defaults,
    );
    const leases = new Map<Part, ClaimLease>();
    const untilMs = nowMs() + ask.waitMs;
    // Called off by the caller, or by the loss of a part while others are waited for.
    const off = new FirstAbort();
    if (ask.signal !== undefined) off.add(ask.signal);
    try {
      for (const part of this.#inOrder) {
        const restMs = ask.waitMs === 0 ? 0 : Math.max(1, untilMs - nowMs());
        const soFar = [...leases.values()];
        const entered = await part.enter(optionsFor(options, ask, restMs, off.signal), soFar);
        if (isTaken(entered)) {
          await giveBack(leases.values());
          return entered;
        }
        leases.set(part, entered);
        off.add(entered.signal);
      }
      const parts = this.#parts.map((part) => leases.get(part)) as unknown as PartsOf<T>;
      limit(leases.values(), ask);
      return new AllLease(this.name, parts);
    } catch (error) {
      await giveBack(leases.values());
      throw this.#explained(error, options);
    } finally {
      off.end();
    }
  }

  /** A call chain that holds a later name already has left the order that prevents deadlocks. */
  #explained(error: unknown, { within }: AcquireOptions): unknown {
    if (!isLockError(error, "timeout") || error.lock === undefined) return error;
    const { lock } = error;
    const later = namesInChain(chainOf(within), this.connection).filter(
      (name) => compareBytes(name, lock) > 0,
    );
    if (later.length === 0) return error;
    const message = `${error.message}
  this call chain holds "${later.join('", "')}", which comes later in the order of names: a caller that takes both with all() waits for this one. Take them with all(), too`;
    return new LockTimeoutError(lock, message, error);
  }
}

function partsOf(connection: Connection, locks: readonly AnyLockable[]): readonly Part[] {
  if (!Array.isArray(locks) || locks.length === 0 || locks.length > MOST_PARTS) {
    throw invalidOption(`all: give a list of 1 to ${MOST_PARTS} locks.`);
  }
  const names = new Set<string>();
  // Array.from visits the holes of a sparse array, too.
  return Array.from(locks, (lock: unknown) => {
    if (!(lock instanceof Holdable) || lock instanceof AllLock) {
      throw invalidOption(
        "all: give the locks themselves, as mutex(), readWrite().read or semaphore() make them.",
      );
    }
    const { name } = lock;
    if (lock.connection !== connection) {
      throw invalidOption(`all: "${name}" belongs to another connection.`, name);
    }
    if (names.has(name))
      throw invalidOption(`all: "${name}" is named twice, and would wait for itself.`, name);
    names.add(name);
    return lock as Part;
  });
}

/** Each is renewed until the last is in, whatever comes then; but its ttl is not longer than it may last. */
function optionsFor(
  { renew: _renew, maxHold: _maxHold, ...options }: AcquireOptions,
  { ttlMs }: ResolvedOptions,
  waitMs: number,
  signal: AbortSignal,
): AcquireOptions {
  return { ...options, ttl: ttlMs, wait: waitMs, signal };
}

/** The time of the whole counts from when its last part is in. What was entered again has the time it had. */
function limit(leases: Iterable<ClaimLease>, { fixed, ttlMs, maxHoldMs }: ResolvedOptions): void {
  const lastsMs = fixed ? ttlMs : maxHoldMs;
  if (lastsMs === Infinity) return;
  for (const { heldClaim, entered } of leases) if (!entered) heldClaim.limit(lastsMs);
}

/** No work was done under them. */
async function giveBack(leases: Iterable<ClaimLease>): Promise<void> {
  await Promise.all([...leases].map((lease) => lease.abandon()));
}

function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** Several leases as one: it is held while all of them are, and given back as a whole. */
export class AllLease<P extends readonly ClaimLease[] = readonly ClaimLease[]> extends AnyLease {
  static override readonly name = "AllLease";

  /** The leases of the single locks, in the order in which they were named. */
  readonly parts: P;
  /** The names of all of them, as one text. */
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
