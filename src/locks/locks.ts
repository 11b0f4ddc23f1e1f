import type { Backend, Guarantees } from "../core/backend.js";
import type { ClaimView, ResourceView } from "../core/claim.js";
import { Connection } from "../core/connection.js";
import { findDeadlock } from "../core/diagnostics/deadlock.js";
import { lookAt, viewOf } from "../core/diagnostics/view.js";
import { invalidOption, type LockError } from "../core/errors.js";
import { Events } from "../core/events.js";
import { locksCallOf, takerOf } from "../core/misplaced-client.js";
import { canonicalName, canonicalPrefix, joinParts, type LockName } from "../core/names.js";
import { knownOptions } from "../core/options.js";
import { type AllLease, AllLock, type AnyLockable, type PartsOf } from "./all.js";
import { Cell } from "./cell.js";
import {
  type CloseOptions,
  closeConnection,
  closeOnSignals,
  readCloseOnSignals,
  readCloseOptions,
} from "./close.js";
import { Election } from "./election.js";
import { type ForceReleaseOptions, forceRelease } from "./force-release.js";
import type { Callback, Lockable } from "./lockable.js";
import {
  LOCKS_OPTIONS,
  type LocksOptions,
  ownerOf,
  readDefaults,
  readOnLeaks,
  requireTraits,
} from "./locks-options.js";
import {
  createMutex,
  createReadWrite,
  type LockOptions,
  type Mutex,
  type MutexOptions,
  type ReadWriteLock,
  type Times,
} from "./mutex.js";
import { type Once, type OnceOptions, OnlyOnce } from "./once.js";
import { createSemaphore, type Semaphore, type SemaphoreOptions } from "./semaphore.js";
import { WebLocks } from "./web-locks.js";

/**
 * All the locks of one engine, as `connect` and `createLocks` make them. A class, so that it can be a token for
 * dependency injection.
 */
export class Locks {
  readonly #connection: Connection;
  readonly #scope: readonly string[];
  #web: WebLocks | undefined;
  readonly #defaults: Times;

  private constructor(connection: Connection, scope: readonly string[], defaults: Times) {
    this.#connection = connection;
    this.#scope = scope;
    this.#defaults = defaults;
  }

  /** @internal */
  static on(connection: Connection, defaults: Times): Locks {
    return new Locks(connection, [], defaults);
  }

  /** @internal */
  static connectionOf(locks: Locks): Connection {
    return locks.#connection;
  }

  /** What the engine promises, and what breaks the promise: read its `caveats` once. */
  get guarantees(): Guarantees {
    const { traits, client } = this.#connection.backend;
    return client === undefined ? traits : { ...traits, client };
  }

  /** Aborts as soon as `close` is called: time to finish. */
  get closing(): AbortSignal {
    return this.#connection.closing;
  }

  /**
   * The same locks under names that begin with these parts, on the same connection: `close` ends both.
   *
   * @example
   * ```ts
   * const tenant = locks.scope("tenant-7");
   * await tenant.mutex("report").run(() => work()); // the lock "tenant-7:report"
   * ```
   */
  scope(...parts: readonly [string, ...string[]]): Locks {
    joinParts(parts);
    return new Locks(this.#connection, [...this.#scope, ...parts], this.#defaults);
  }

  /**
   * One holder at a time. Nothing is asked of the engine before `run` or `acquire`. No lock can stop a paused process from
   * writing late: pass `lease.token` to what is protected.
   *
   * @example
   * ```ts
   * await locks.mutex(["orders", orderId]).run({ wait: "5s" }, async (lease) => {
   *   await ship(orderId, { signal: lease.signal, token: lease.token });
   * });
   * ```
   */
  mutex(name: LockName, options: MutexOptions = {}): Mutex {
    return createMutex(this.#connection, this.#name(name), options, this.#defaults);
  }

  /**
   * Many may read at once; one writes, and none reads meanwhile. A reader that comes after a writer waits behind it. A call
   * chain that reads cannot write: that is the error `upgrade`.
   *
   * @example
   * ```ts
   * const prices = locks.readWrite("prices");
   * const list = await prices.read.run(() => load());
   * await prices.write.run(() => store(list));
   * ```
   */
  readWrite(name: LockName, options: LockOptions = {}): ReadWriteLock {
    return createReadWrite(this.#connection, this.#name(name), options, this.#defaults);
  }

  /**
   * So many permits; each lease has one of them, or as many as it asks for. Without a number it takes over the one
   * that is in force. Another number than the one in force is a `CapacityMismatchError`: see `resize`.
   *
   * @example
   * ```ts
   * await locks.semaphore("mail-server", 5).run(() => send(mail)); // five at a time, over all machines
   * ```
   */
  semaphore(name: LockName, permits?: number, options: SemaphoreOptions = {}): Semaphore {
    return createSemaphore(this.#connection, this.#name(name), permits, options, this.#defaults);
  }

  /**
   * Several locks of any kinds as one: all or nothing. They are taken in one order, so calls of `all` are never in a
   * deadlock with each other.
   *
   * @example
   * ```ts
   * const both = locks.all([locks.mutex("account:1"), locks.mutex("account:2")]);
   * await both.run(() => transfer(100));
   * ```
   */
  all<const T extends readonly AnyLockable[]>(locks: T): Lockable<AllLease<PartsOf<T>>> {
    return new AllLock(this.#connection, locks, this.#defaults);
  }

  /**
   * One leader at a time among all that campaign under this name.
   *
   * @example
   * ```ts
   * await locks.election("scheduler").lead(async ({ signal }) => {
   *   while (!signal.aborted) await work(signal);
   * });
   * ```
   */
  election(name: LockName): Election {
    const seat = createMutex(this.#connection, this.#name(name), {}, this.#defaults, "election");
    return new Election(this.#connection, seat);
  }

  /**
   * A small value that is changed without a lock: a writer says which version it has seen. It is kept as JSON.
   *
   * @example
   * ```ts
   * await locks.cell<number>("visits").update((visits = 0) => visits + 1);
   * ```
   */
  cell<T>(name: LockName): Cell<T> {
    return new Cell(this.#connection, this.#name(name));
  }

  /**
   * Runs `fn` if nothing is stored under that key, and stores what it returns; every other caller gets what is stored.
   * A caller that comes while it runs waits. If the process crashes, another caller runs it: so what it does may be
   * done twice, unless that is refused by the lease's token.
   *
   * @example
   * ```ts
   * const { value } = await locks.once(["charge", orderId], { keep: "1d" }, () => charge(orderId));
   * ```
   */
  async once<T>(key: LockName, options: OnceOptions, fn: Callback<T>): Promise<Once<T>> {
    if (typeof fn !== "function") {
      throw invalidOption(
        'once: say for how long the result is kept, and then what to run: once(key, { keep: "1d" }, fn).',
      );
    }
    const name = this.#name(key);
    const mutex = createMutex(this.#connection, name, {}, this.#defaults, "once");
    return new OnlyOnce<T>(this.#connection, name, mutex, options).call(fn);
  }

  /** The platform's `navigator.locks`, across processes and machines. Its names do not meet those of `mutex`. */
  get web(): WebLocks {
    this.#web ??= new WebLocks(this.#connection, this.#scope, this.#defaults);
    return this.#web;
  }

  /**
   * The holders of a lock and its waiters, in order. For people: it may have changed by the time it is read.
   *
   * @example
   * ```ts
   * const { holders, waiters } = await locks.inspect("report");
   * for (const { owner, note, ageMs } of holders) console.log(owner.host, note, ageMs, waiters.length);
   * ```
   */
  async inspect(name: LockName): Promise<ResourceView> {
    const full = this.#name(name);
    this.#connection.assertNotClosed(full);
    const record = await lookAt(this.#connection, full);
    if (record === undefined) return { name: full, holders: [], waiters: [] };
    const deadlock = await findDeadlock(this.#connection, record);
    const view = viewOf(this.#connection, record);
    return deadlock === undefined ? view : { ...view, deadlock };
  }

  /**
   * Every name that is held or waited for, with its queue. On a server with many names it takes many requests.
   *
   * @example
   * ```ts
   * for await (const { name, holders } of locks.list({ prefix: "order" })) console.log(name, holders.length);
   * ```
   */
  async *list(
    query: {
      /** What the names begin with, below the scope; all if not given. */
      readonly prefix?: string;
    } = {},
  ): AsyncGenerator<ResourceView, void, undefined> {
    knownOptions(query, new Set(["prefix"]), "list");
    const prefix = canonicalPrefix(query.prefix ?? "", this.#scope);
    this.#connection.assertNotClosed();
    for await (const record of this.#connection.backend.list({ prefix }))
      yield viewOf(this.#connection, record);
  }

  /**
   * Takes the lock away from its holders, who are told. Resolves to the victims. A holder that does not listen goes on
   * working beside the next one: only its token can refuse what it writes.
   *
   * @example
   * ```ts
   * await locks.forceRelease("nightly", { reason: "it has been hanging since noon", by: "ada" });
   * ```
   */
  async forceRelease(name: LockName, options: ForceReleaseOptions): Promise<readonly ClaimView[]> {
    return forceRelease(this.#connection, this.#name(name), options);
  }

  /**
   * Ends the connection without ever letting a second holder in beside a first: no new claims, callbacks may finish for
   * `drain`, then their signals abort. What still runs after `abort` is not released; its ttl ends it.
   *
   * @example
   * ```ts
   * await locks.close({ drain: "10s" });
   * ```
   */
  close(options: CloseOptions = {}): Promise<void> {
    return closeConnection(this.#connection, readCloseOptions(options));
  }

  /** What `close` does, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #name(name: LockName): string {
    return canonicalName(name, this.#scope);
  }
}

function notBackend(given: unknown): LockError {
  const taker = takerOf(given);
  const write = typeof given === "string" ? "await connect(url)" : taker && locksCallOf(taker);
  return invalidOption(
    `createLocks: the first argument must be a backend, as the modules of the engines make it.${write === undefined ? "" : ` Write ${write}.`}`,
  );
}

/**
 * Locks on an engine that is already at hand: with a client or a pool of your own, or without `connect`. It connects on
 * first use, so that an address that is wrong is noticed only then.
 *
 * @example
 * ```ts
 * import { createLocks } from "locktender";
 * import { memory } from "locktender/memory";
 *
 * const locks = createLocks(memory(), { ttl: "10s" });
 * await locks.mutex("report").run(() => work());
 * await locks.close();
 * ```
 */
export function createLocks(backend: Backend, options: LocksOptions = {}): Locks {
  knownOptions(options, LOCKS_OPTIONS, "createLocks");
  if (
    typeof backend !== "object" ||
    backend === null ||
    typeof backend.claim !== "function" ||
    !backend.traits
  ) {
    throw notBackend(backend);
  }
  if (options.onEvent !== undefined && typeof options.onEvent !== "function") {
    throw invalidOption("onEvent: must be a function.");
  }
  requireTraits(backend.traits, options.require ?? {});
  const defaults = readDefaults(options);
  if (defaults.fair) requireTraits(backend.traits, { queueing: true });
  const connection = new Connection(
    backend,
    new Events(options.onEvent),
    ownerOf(options.owner ?? {}),
    readOnLeaks(options),
  );
  if (options.closeOnSignals !== undefined) {
    const { signals, times } = readCloseOnSignals(options.closeOnSignals);
    closeOnSignals(connection, signals, (signal) =>
      closeConnection(connection, times, `this process was sent ${signal}`),
    );
  }
  return Locks.on(connection, defaults);
}
