import type { AnyLease } from "../core/any-lease.js";
import type { Connection } from "../core/connection.js";
import { invalidOption, LockError } from "../core/errors.js";
import { SharedLease } from "../core/lease.js";
import { type AcquireOptions, type Defaults, isObject, knownOptions, readOptions } from "../core/options.js";
import { chainOf, permitsInChain, shownHolds } from "../core/reentrancy.js";
import { isPermits, MOST_PERMITS } from "../core/resizing.js";
import { acquireTraced, takenBy } from "./engine-lock.js";
import { type LockOptions, needsQueue, readLockOptions, type Times } from "./lock-options.js";
import { Holdable, type Lockable, type Taken } from "./lockable.js";
import { permitsInForce, type ResizeOptions, resizeTo } from "./resize.js";

export interface PermitOptions extends Omit<AcquireOptions, "reentrant"> {
  /** How many permits at once; 1 if not given. */
  readonly weight?: number | undefined;
}

export type SemaphoreOptions = Omit<LockOptions, "reentrant">;

/** A bounded number of permits. They belong to leases, so they come back after a crash, too. */
export interface Semaphore extends Lockable<SharedLease, PermitOptions> {
  /**
   * Changes the number of permits for all processes. It waits in the queue until no permit is held, so no permit is ever
   * taken away; the waiters behind it enter again, and a waiter that needs more than there are now fails. Where the own call
   * chain holds permits it would wait for itself: that is the error `self-deadlock`.
   */
  resize(permits: number, options?: ResizeOptions): Promise<void>;
}

const KNOWN = new Set<string>(["maxWaiters"] satisfies (keyof SemaphoreOptions)[]);

export function createSemaphore(
  connection: Connection,
  name: string,
  permits: number | undefined,
  options: SemaphoreOptions,
  times: Times,
): Semaphore {
  knownOptions(options, KNOWN, `semaphore "${name}"`);
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
    const { weight = 1, ...others } = options;
    if ((others as AcquireOptions).reentrant !== undefined)
      throw invalidOption("reentrant: permits are counted, not entered again.", name);
    const most = this.#permits ?? MOST_PERMITS;
    if (!isPermits(weight) || weight > most) {
      throw invalidOption(`weight: must be a whole number from 1 to ${most}, the number of permits.`, name);
    }
    const asked = readOptions({ name, kind: "semaphore", weight, capacity: most }, others, this.#defaults);
    const outer = chainOf(options.within);
    const inChain = permitsInChain(outer, connection, name);
    const notForItself = (capacity: number) => {
      if (asked.waitMs === 0 || weight > capacity || inChain + weight <= capacity) return;
      throw ownPermits(name, inChain, weight, capacity);
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

function ownPermits(name: string, held: number, weight: number, capacity: number): LockError {
  return new LockError(
    "self-deadlock",
    `this call chain holds ${held} of the ${capacity} permits of "${name}" and asks for ${weight} more: it would wait for itself. Give some back first, or say { within: null } if this work is independent.`,
    { name },
  );
}
