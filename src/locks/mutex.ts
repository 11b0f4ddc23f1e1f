import { acquire } from "../core/acquire.js";
import type { AcquireRequest } from "../core/acquire-request.js";
import type { AnyLease } from "../core/any-lease.js";
import { WHOLE } from "../core/claim.js";
import { elapsedMs, nowMs } from "../core/clock.js";
import type { Connection } from "../core/connection.js";
import { timeoutError } from "../core/diagnostics/timeout-error.js";
import { lookAt, MOST_LOOKED_AT, viewOf } from "../core/diagnostics/view.js";
import { type Duration, durationMs } from "../core/duration.js";
import { invalidOption, LockError } from "../core/errors.js";
import { type LockKind, type TraceContext, traceAcquire } from "../core/events.js";
import type { HeldClaim } from "../core/held-claim.js";
import { type ClaimLease, Lease, type LeaseKind, SharedLease } from "../core/lease.js";
import {
  type AcquireOptions,
  type Defaults,
  flag,
  knownOptions,
  maxWaitersOption,
  type ResolvedOptions,
  readOptions,
} from "../core/options.js";
import { chainOf, heldInChain, selfDeadlock, shownHolds, upgrade } from "../core/reentrancy.js";
import { Holdable, type Lockable, type Taken } from "./lockable.js";

// A mutex and the two sides of a read-write lock: each is one claim at the engine.

/** What a kind of lock asks the engine for, and what it gives to its holders. */
export interface Resource<L extends ClaimLease> {
  readonly name: string;
  readonly kind: LockKind;
  readonly weight: number;
  readonly capacity: number;
  /** Tasks of one process may be served by one claim. */
  readonly shares?: boolean;
  readonly Lease: LeaseKind<L>;
}

/** A lock that is one claim at the engine. */
export class EngineLock<L extends ClaimLease> extends Holdable<L> {
  readonly name: string;
  /** @internal */
  readonly connection: Connection;
  readonly #resource: Resource<L>;
  readonly #defaults: Defaults;
  /** What is asked for without options: most calls have none. */
  readonly #plain: ResolvedOptions;

  constructor(connection: Connection, resource: Resource<L>, defaults: Defaults) {
    super();
    this.name = resource.name;
    this.connection = connection;
    this.#resource = resource;
    this.#defaults = defaults;
    this.#plain = readOptions(resource, undefined, defaults);
  }

  /** By the own call chain if it holds this lock already, else by the engine. @internal */
  enter(options?: AcquireOptions, besides: readonly AnyLease[] = []): Promise<L | Taken> {
    // No async function: each one on the way of a free lock costs two promises.
    try {
      return this.#enter(options, besides);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #enter(options: AcquireOptions | undefined, besides: readonly AnyLease[]): Promise<L | Taken> {
    const { connection, name } = this;
    const { Lease } = this.#resource;
    const ask = options === undefined ? this.#plain : readOptions(this.#resource, options, this.#defaults);
    const within = options?.within;
    const outer = chainOf(within);
    const own = heldInChain(outer, connection, name);
    // A semaphore of that name is none of ours: the engine says so.
    if (own !== undefined && own.heldClaim.request.capacity === ask.capacity) {
      if (ask.weight > own.heldClaim.request.weight) throw upgrade(name);
      if (ask.reentrant || within)
        return own
          .reenter(Lease, outer, ask.waitMs, ask.signal)
          .then((lease) => lease ?? takenBy(connection, name));
      if (ask.waitMs > 0) throw selfDeadlock(name);
    }
    const startMs = nowMs();
    return traced(connection, ask, shownHolds(outer, connection, besides)).then((heldClaim) => {
      if (heldClaim === undefined) return takenBy(connection, name);
      tellAcquired(heldClaim, startMs);
      return new Lease(heldClaim, outer);
    });
  }
}

/** A claim at the engine, with the events that tell of it. */
export async function acquireTraced(
  connection: Connection,
  request: AcquireRequest,
  holds: AcquireRequest["holds"],
): Promise<HeldClaim | undefined> {
  const startMs = nowMs();
  const heldClaim = await traced(connection, request, holds);
  if (heldClaim !== undefined) tellAcquired(heldClaim, startMs);
  return heldClaim;
}

function tellAcquired({ connection, request, token }: HeldClaim, startMs: number): void {
  if (!connection.events.wants("acquired")) return;
  const waitedMs = elapsedMs(startMs);
  connection.events.emit({
    type: "acquired",
    ...connection.about(request),
    token: String(token),
    waitedMs,
  });
}

export function takenBy(connection: Connection, name: string): Taken {
  return {
    blockers: async () => {
      const record = await lookAt(connection, name, MOST_LOOKED_AT);
      return record === undefined ? [] : viewOf(connection, record).holders;
    },
    told: () => timeoutError(connection, name, 0),
  };
}

function traced(
  connection: Connection,
  asked: AcquireRequest,
  holds: AcquireRequest["holds"],
): Promise<HeldClaim | undefined> {
  const request = holds === undefined ? asked : { ...asked, holds };
  if (!traceAcquire.hasSubscribers) return acquire(connection, request);
  const context: TraceContext = connection.about(request);
  return traceAcquire.tracePromise(async () => {
    const heldClaim = await acquire(connection, request);
    if (heldClaim !== undefined) context.token = heldClaim.token;
    return heldClaim;
  }, context);
}

/** What every kind of lock can be told when it is made. */
export interface LockOptions {
  /** Inside `run`, the same call chain may enter again. Without it that is the error `self-deadlock`. */
  readonly reentrant?: boolean | undefined;
  /** Do not queue behind more than this many: the error is `queue-full`. Only where the engine has a queue. */
  readonly maxWaiters?: number | undefined;
}

/** What `connect` sets for all locks. */
export interface Times extends Defaults {
  /** Strict arrival order, unless a mutex says otherwise. */
  readonly fair: boolean;
}

export function readLockOptions(
  connection: Connection,
  name: string,
  { reentrant, maxWaiters }: LockOptions,
  times: Times,
): Defaults {
  if (reentrant === undefined && maxWaiters === undefined) return times;
  if (maxWaiters !== undefined) needsQueue(connection, name, "maxWaiters");
  return {
    ...times,
    reentrant: reentrant !== undefined && flag("reentrant", reentrant),
    maxWaiters: maxWaiters === undefined ? undefined : maxWaitersOption(maxWaiters),
  };
}

/** Without a queue there is no order to keep, and a claim that needs much at once may wait for ever. */
export function needsQueue(connection: Connection, name: string, what: string): void {
  const { engine, queueing } = connection.backend.traits;
  if (queueing) return;
  throw new LockError("unsupported", `${what}: ${engine} keeps no queue, so there is no order to keep.`, {
    name,
  });
}

/** What a mutex is told when it is made. */
export interface MutexOptions extends LockOptions {
  /**
   * Strict arrival order across processes: every process that uses the name has to say so. Without it, tasks of one
   * process may for a short time go before an earlier one of another process. An engine without a queue is refused.
   *
   * @example
   * ```ts
   * await locks.mutex("tickets", { fair: true }).run(() => work());
   * ```
   */
  readonly fair?: boolean | undefined;
  /**
   * After a release the process keeps the claim for so long, unless another process wants it: to take the same name
   * again costs no request then. At most the ttl. If the process crashes meanwhile, others wait for one ttl.
   *
   * @example
   * ```ts
   * await locks.mutex(["user", orderId], { sticky: "1s" }).run(() => work());
   * ```
   */
  readonly sticky?: Duration | undefined;
}

const MUTEX_OPTIONS = new Set<string>([
  "reentrant",
  "fair",
  "maxWaiters",
  "sticky",
] satisfies (keyof MutexOptions)[]);

/** One holder at a time. */
export type Mutex = Lockable<Lease>;

/** One holder at a time: the claim weighs as much as there is. */
export function createMutex(
  connection: Connection,
  name: string,
  options: MutexOptions,
  times: Times,
  kind: LockKind = "mutex",
): Mutex {
  knownOptions(options, MUTEX_OPTIONS, `mutex "${name}"`, name);
  const defaults = readLockOptions(connection, name, options, times);
  const fair = options.fair === undefined ? times.fair : flag("fair", options.fair);
  if (fair) needsQueue(connection, name, "fair");
  const stickyMs = readSticky(connection, name, options, fair, times);
  // A leader's term is seen by all that observe the election: each is a claim of its own.
  const shares = !fair && kind !== "election";
  const resource = { name, kind, weight: WHOLE, capacity: WHOLE, shares, Lease };
  return new EngineLock(connection, resource, stickyMs === 0 ? defaults : { ...defaults, stickyMs });
}

function readSticky(
  { backend: { traits } }: Connection,
  name: string,
  { sticky, fair: saidFair, maxWaiters }: MutexOptions,
  fair: boolean,
  { ttlMs }: Times,
): number {
  if (sticky === undefined) return 0;
  const stickyMs = durationMs("sticky", sticky, { maxMs: ttlMs });
  if (stickyMs === 0) return 0;
  if (!traits.tellsHolder) {
    const message = `sticky: ${traits.engine} does not tell a holder that another process waits, so its claim would keep that process waiting. Leave sticky out of mutex "${name}" there.`;
    throw new LockError("unsupported", message, { name });
  }
  if (fair) {
    const because = saidFair === undefined ? "fair is set for all locks of this connection, and " : "";
    throw invalidOption(
      `sticky: ${because}a claim that stays with its process keeps no order. Give one of fair and sticky.`,
      name,
    );
  }
  if (maxWaiters !== undefined)
    throw invalidOption("sticky: with maxWaiters every task has a claim of its own. Give one of them.", name);
  return stickyMs;
}

const READ_WRITE_OPTIONS = new Set<string>(["reentrant", "maxWaiters"] satisfies (keyof LockOptions)[]);

/** Many may read at once; while one writes, no other reads or writes. */
export interface ReadWriteLock {
  /** The whole name, with its scope. */
  readonly name: string;
  /** For many at once, unless one writes or waits to write. */
  readonly read: Lockable<SharedLease>;
  /** For one alone. A mutex of the same name is this. */
  readonly write: Lockable;
}

/**
 * A reader weighs next to nothing, a writer as much as there is. The queue is one: a reader that comes after a
 * writer waits behind it, so writers never starve.
 */
export function createReadWrite(
  connection: Connection,
  name: string,
  options: LockOptions,
  times: Times,
): ReadWriteLock {
  knownOptions(options, READ_WRITE_OPTIONS, `readWrite "${name}"`, name);
  const defaults = readLockOptions(connection, name, options, times);
  needsQueue(connection, name, "readWrite");
  const read = { name, kind: "read", weight: 1, capacity: WHOLE, Lease: SharedLease } as const;
  const write = { name, kind: "write", weight: WHOLE, capacity: WHOLE, Lease } as const;
  return {
    name,
    read: new EngineLock(connection, read, defaults),
    write: new EngineLock(connection, write, defaults),
  };
}
