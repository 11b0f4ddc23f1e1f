import type { AnyLease } from "../core/any-lease.js";
import type { Connection } from "../core/connection.js";
import { invalidOption, LockError } from "../core/errors.js";
import { SharedLease } from "../core/lease.js";
import { type AcquireOptions, type Defaults, knownOptions, readOptions } from "../core/options.js";
import { chainOf, shownHolds, weightInChain } from "../core/reentry.js";
import { granted, takenBy } from "./engine-lock.js";
import { type LockOptions, needsQueue, readLockOptions, type Times } from "./lock-options.js";
import { Holdable, type Lockable, type Taken } from "./lockable.js";

/** More than anybody needs, and less than what is exclusive. */
const MOST_PERMITS = 1_000_000_000;

export interface PermitOptions extends Omit<AcquireOptions, "reentrant"> {
  /** How many permits at once; 1 if not given. */
  readonly weight?: number;
}

export type SemaphoreOptions = Omit<LockOptions, "reentrant">;

/** A bounded number of permits. They belong to leases, so they come back after a crash, too. */
export type Semaphore = Lockable<SharedLease, PermitOptions>;

const KNOWN = new Set<string>(["maxWaiters"] satisfies (keyof SemaphoreOptions)[]);

export function createSemaphore(
  connection: Connection,
  name: string,
  permits: number,
  options: SemaphoreOptions,
  times: Times,
): Semaphore {
  knownOptions(options, KNOWN, `semaphore "${name}"`);
  if (!isCount(permits)) {
    throw invalidOption(`permits: must be a whole number from 1 to ${MOST_PERMITS}.`, name);
  }
  needsQueue(connection, name, "semaphore");
  return new PermitLock(connection, name, permits, readLockOptions(connection, name, options, times));
}

class PermitLock extends Holdable<SharedLease, PermitOptions> {
  readonly name: string;
  /** @internal */
  readonly connection: Connection;
  readonly #permits: number;
  readonly #defaults: Defaults;

  constructor(connection: Connection, name: string, permits: number, defaults: Defaults) {
    super();
    this.connection = connection;
    this.name = name;
    this.#permits = permits;
    this.#defaults = defaults;
  }

  /** @internal */
  async enter(options: PermitOptions = {}, besides: readonly AnyLease[] = []): Promise<SharedLease | Taken> {
    const { connection, name } = this;
    const capacity = this.#permits;
    const { weight = 1, ...others } = options;
    if ("reentrant" in others)
      throw invalidOption("reentrant: permits are counted, not entered again.", name);
    if (!isCount(weight) || weight > capacity) {
      throw invalidOption(
        `weight: must be a whole number from 1 to ${capacity}, the number of permits.`,
        name,
      );
    }
    const ask = readOptions({ name, weight, capacity }, others, this.#defaults);
    const outer = chainOf(options.within);
    const inChain = weightInChain(outer, connection, name);
    if (ask.waitMs > 0 && inChain + weight > capacity) throw ownPermits(name, inChain, weight, capacity);
    const hold = await granted(connection, ask, shownHolds(outer, connection, besides));
    return hold === undefined ? takenBy(connection, name) : new SharedLease(hold, outer);
  }
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MOST_PERMITS;
}

function ownPermits(name: string, held: number, weight: number, capacity: number): LockError {
  return new LockError(
    "self-deadlock",
    `this call chain holds ${held} of the ${capacity} permits of "${name}" and asks for ${weight} more: it would wait for itself. Give some back first, or say { within: null } if this work is independent.`,
    { name },
  );
}
