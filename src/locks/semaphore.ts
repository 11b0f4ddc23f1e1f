import { createHash } from "node:crypto";
import { isPermits, MOST_PERMITS, notPermits, type Permits, permitsOf } from "../core/acquire-request.js";
import type { AnyLease } from "../core/any-lease.js";
import { WHOLE } from "../core/claim.js";
import { nowMs } from "../core/clock.js";
import type { Connection } from "../core/connection.js";
import { timeoutError } from "../core/diagnostics/timeout-error.js";
import { lookAt } from "../core/diagnostics/view.js";
import { invalidOption, isLockError, LockError } from "../core/errors.js";
import type { HeldClaim } from "../core/held-claim.js";
import { SharedLease } from "../core/lease.js";
import {
  ACQUIRE_OPTIONS,
  type AcquireOptions,
  type Defaults,
  isObject,
  knownOptions,
  readOptions,
} from "../core/options.js";
import { chainOf, permitsInChain, shownHolds } from "../core/reentrancy.js";
import { cellsOf, storedJson } from "./cell.js";
import { forceBehind } from "./force-release.js";
import { Holdable, type Lockable, type Taken } from "./lockable.js";
import {
  acquireTraced,
  type LockOptions,
  needsQueue,
  readLockOptions,
  type Times,
  takenBy,
} from "./mutex.js";

/** What one call may say that takes permits of a semaphore. */
export interface PermitOptions extends Omit<AcquireOptions, "reentrant"> {
  /** How many permits at once; 1 if not given. */
  readonly weight?: number | undefined;
}

/** What a semaphore is told when it is made. */
export type SemaphoreOptions = Omit<LockOptions, "reentrant">;
/** How long `resize` waits for the permits to come back. */
export type ResizeOptions = Pick<AcquireOptions, "wait" | "signal" | "within">;

/** A bounded number of permits. They belong to leases, so they come back after a crash, too. */
export interface Semaphore extends Lockable<SharedLease, PermitOptions> {
  /**
   * Changes the number of permits for all processes. It waits in the queue until no permit is held, so no permit is ever
   * taken away; the waiters behind it enter again, and a waiter that needs more than there are now fails. Where the own call
   * chain holds permits it would wait for itself: that is the error `self-deadlock`.
   *
   * @example
   * ```ts
   * await locks.semaphore("mail-server").resize(10);
   * ```
   */
  resize(permits: number, options?: ResizeOptions): Promise<void>;
}

const PERMIT_OPTIONS = new Set(["weight", ...ACQUIRE_OPTIONS]);
const SEMAPHORE_OPTIONS = new Set<string>(["maxWaiters"] satisfies (keyof SemaphoreOptions)[]);
const RESIZE_OPTIONS = new Set<string>(["wait", "signal", "within"] satisfies (keyof ResizeOptions)[]);
/** A longer name is hashed to make that of its cell. */
const LONGEST_NAME = 200;

export function createSemaphore(
  connection: Connection,
  name: string,
  permits: number | undefined,
  options: SemaphoreOptions,
  times: Times,
): Semaphore {
  knownOptions(options, SEMAPHORE_OPTIONS, `semaphore "${name}"`, name);
  if (permits !== undefined) checkPermits(permits, name);
  needsQueue(connection, name, "semaphore");
  return new PermitLock(connection, name, permits, readLockOptions(connection, name, options, times));
}

class PermitLock extends Holdable<SharedLease, PermitOptions> implements Semaphore {
  readonly name: string;
  /** @internal */
  readonly connection: Connection;
  #permits: number | undefined;
  readonly #defaults: Defaults;

  constructor(connection: Connection, name: string, permits: number | undefined, defaults: Defaults) {
    super();
    this.connection = connection;
    this.name = name;
    this.#permits = permits;
    this.#defaults = defaults;
  }

  /** @internal */
  async enter(options: PermitOptions = {}, besides: readonly AnyLease[] = []): Promise<SharedLease | Taken> {
    const { connection, name } = this;
    isObject(options, `semaphore "${name}"`);
    if ((options as AcquireOptions).reentrant !== undefined)
      throw invalidOption("reentrant: permits are counted, not entered again.", name);
    knownOptions(options, PERMIT_OPTIONS, `semaphore "${name}"`, name);
    const { weight = 1, ...others } = options;
    const most = this.#permits ?? MOST_PERMITS;
    if (!isPermits(weight) || weight > most) {
      throw invalidOption(`weight: must be a whole number from 1 to ${most}, the number of permits.`, name);
    }
    const asked = readOptions({ name, kind: "semaphore", weight, capacity: most }, others, this.#defaults);
    const outer = chainOf(options.within);
    const inChain = permitsInChain(outer, connection, name);
    const notForItself = (capacity: number) => {
      if (asked.waitMs === 0 || weight > capacity || inChain + weight <= capacity) return;
      throw permitsOfChain(name, inChain, weight, capacity);
    };
    if (this.#permits !== undefined) notForItself(this.#permits);
    const takeOver = async () => {
      const permits = await permitsInForce(connection, name);
      notForItself(permits.capacity);
      return permits;
    };
    const adopts = this.#permits === undefined ? takeOver : undefined;
    const heldClaim = await acquireTraced(
      connection,
      { ...asked, adopts },
      shownHolds(outer, connection, besides),
    );
    return heldClaim === undefined ? takenBy(connection, name) : new SharedLease(heldClaim, outer);
  }

  async resize(permits: number, options: ResizeOptions = {}): Promise<void> {
    checkPermits(permits, this.name);
    await resizeTo(this.connection, this.name, permits, options, this.#defaults);
    // A caller that has named the number, and changes it, does not go on with the old one.
    if (this.#permits !== undefined) this.#permits = permits;
  }
}

function checkPermits(permits: unknown, name: string): void {
  if (isPermits(permits)) return;
  throw invalidOption(`permits: must be a whole number from 1 to ${MOST_PERMITS}.`, name);
}

function permitsOfChain(name: string, held: number, weight: number, capacity: number): LockError {
  return new LockError(
    "self-deadlock",
    `this call chain holds ${held} of the ${capacity} permits of "${name}" and asks for ${weight} more: it would wait for itself. Give some back first, or say { within: null } if this work is independent.`,
    { name },
  );
}

/** How many permits there are: those that are in use, or those that were last set. */
async function permitsInForce(connection: Connection, name: string): Promise<Permits> {
  const record = await lookAt(connection, name, 1);
  if (record !== undefined) return permitsOf(record);
  const capacity = await storedPermits(connection, name);
  if (capacity !== undefined) return { capacity, changing: false };
  throw invalidOption(
    `the semaphore "${name}" is not in use, and its size was never set. Say how many permits there are, as in semaphore(name, 5), or resize it once.`,
    name,
  );
}

/**
 * Changes the number of permits. The caller holds all of the old ones, sets the new number, sends away the claims that
 * wait behind it, and leaves. If a claim with the old number has entered in between, it does so again.
 */
async function resizeTo(
  connection: Connection,
  name: string,
  permits: number,
  options: ResizeOptions,
  defaults: Defaults,
): Promise<void> {
  knownOptions(options, RESIZE_OPTIONS, `resize of "${name}"`, name);
  const { waitMs, ...asked } = readOptions(
    { name, kind: "semaphore", weight: 1, capacity: 1 },
    options,
    defaults,
  );
  const outer = chainOf(options.within);
  if (permitsInChain(outer, connection, name) > 0) throw resizeInChain(name);
  const note = resizedTo(permits);
  const startMs = nowMs();
  const restMs = () => startMs + waitMs - nowMs();
  // With the new number, if there is no claim: else the engine says which one is in force.
  for (let old = permits, turn = 1; ; turn++) {
    const ask = {
      ...asked,
      weight: old,
      capacity: old,
      note,
      resize: permits,
      waitMs: Math.max(1, restMs()),
    };
    const heldClaim = await acquireTraced(connection, ask, shownHolds(outer, connection)).catch(
      otherCapacity,
    );
    if (typeof heldClaim === "number") old = heldClaim;
    else if (heldClaim !== undefined) {
      await settle(heldClaim, permits);
      old = (await lookAt(connection, name, 1))?.capacity ?? permits;
      if (old === permits) return;
    }
    if (old === WHOLE) throw notPermits(name);
    if (turn > 1 && restMs() <= 0) throw await timeoutError(connection, name, nowMs() - startMs);
  }
}

async function settle(heldClaim: HeldClaim, permits: number): Promise<void> {
  const { connection, name } = heldClaim;
  try {
    await storePermits(connection, name, permits);
    if (heldClaim.request.capacity !== permits) {
      await forceBehind(heldClaim, { reason: resizedTo(permits), resize: permits });
    }
  } finally {
    await heldClaim.giveBack();
  }
}

/** For people to read. Waiters of releases before read the number here, and not in `resize`. */
function resizedTo(permits: number): string {
  return `resized to ${permits} permits`;
}

/** Beside the semaphore, for claims that find it empty. No list of parts makes a name with such a `\`. */
function cellName(name: string): string {
  const short = Buffer.byteLength(name) <= LONGEST_NAME;
  return `${short ? name : createHash("sha256").update(name).digest("base64url")}:\\permits`;
}

async function storePermits(connection: Connection, name: string, permits: number): Promise<void> {
  await cellsOf(connection, name, "resize").write(cellName(name), { text: JSON.stringify({ permits }) });
}

async function storedPermits(connection: Connection, name: string): Promise<number | undefined> {
  const stored = await cellsOf(connection, name, "semaphore").read(cellName(name));
  const { permits } = (storedJson(stored?.text ?? "null", name) ?? {}) as { permits?: unknown };
  return isPermits(permits) ? permits : undefined;
}

/** Another number of permits is in force than we thought. */
function otherCapacity(error: unknown): number {
  if (isLockError(error, "capacity-mismatch")) return error.permits ?? WHOLE;
  throw error;
}

function resizeInChain(name: string): LockError {
  return new LockError(
    "self-deadlock",
    `this call chain holds permits of "${name}", and resize waits until none is held: it would wait for itself. Give them back first, or say { within: null } if this work is independent.`,
    { name },
  );
}
