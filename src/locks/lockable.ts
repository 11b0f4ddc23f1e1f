import { acquire } from "../core/acquire.js";
import type { Ask } from "../core/ask.js";
import { nowMs } from "../core/clock.js";
import type { Connection } from "../core/connection.js";
import { invalidOption } from "../core/errors.js";
import { type TraceContext, traceAcquire } from "../core/events.js";
import type { Hold } from "../core/hold.js";
import type { ClaimView } from "../core/inspect.js";
import { Lease } from "../core/lease.js";
import { groupOf } from "../core/names.js";
import {
  type AcquireOptions,
  type Defaults,
  knownOptions,
  readOptions,
  TRY_OPTIONS,
  type TryOptions,
} from "../core/options.js";
import { chainOf, heldInChain, selfDeadlock } from "../core/reentry.js";
import { lookAt, MOST_LOOKED_AT, timeoutError } from "../core/timeout.js";
import { runHeld } from "./run.js";

export type TryRun<T> =
  | { readonly ran: true; readonly value: T }
  | { readonly ran: false; readonly blockers: readonly ClaimView[] };

export type Callback<T> = (lease: Lease) => T | PromiseLike<T>;

/** Everything that can be held. */
export interface Lockable {
  readonly name: string;
  /** Waits for the lock; rejects with a `LockTimeoutError` that says who holds it. */
  acquire(options?: AcquireOptions): Promise<Lease>;
  /** Asks once, and leaves no trace in the queue. */
  tryAcquire(options?: TryOptions): Promise<Lease | null>;
  /** Waits, runs, renews meanwhile, and releases. */
  run<T>(fn: Callback<T>): Promise<T>;
  run<T>(options: AcquireOptions, fn: Callback<T>): Promise<T>;
  /** Runs only if the lock is free right now. */
  tryRun<T>(fn: Callback<T>): Promise<TryRun<T>>;
  tryRun<T>(options: TryOptions, fn: Callback<T>): Promise<TryRun<T>>;
}

/** What a kind of lock asks the engine for. */
export interface Resource {
  readonly name: string;
  readonly weight: number;
  readonly capacity: number;
}

const NO_OPTIONS: AcquireOptions = {};

export class EngineLock implements Lockable {
  readonly name: string;
  readonly #connection: Connection;
  readonly #resource: Resource;
  readonly #defaults: Defaults;
  /** What is asked for without options: most calls have none. */
  readonly #plain: ReturnType<typeof readOptions>;

  constructor(connection: Connection, resource: Resource, defaults: Defaults) {
    this.name = resource.name;
    this.#connection = connection;
    this.#resource = resource;
    this.#defaults = defaults;
    this.#plain = readOptions(resource, NO_OPTIONS, defaults);
  }

  async acquire(options: AcquireOptions = NO_OPTIONS): Promise<Lease> {
    const lease = await this.#enter(options);
    if (lease === undefined) throw await timeoutError(this.#connection, this.name, 0);
    return lease;
  }

  async tryAcquire(options: TryOptions = {}): Promise<Lease | null> {
    return (await this.#enter(onceOnly(options))) ?? null;
  }

  async run<T>(...args: [Callback<T>] | [AcquireOptions, Callback<T>]): Promise<T> {
    const [options, fn] = callbackLast(args);
    return runHeld(await this.acquire(options), fn);
  }

  async tryRun<T>(...args: [Callback<T>] | [TryOptions, Callback<T>]): Promise<TryRun<T>> {
    const [options, fn] = callbackLast(args);
    const lease = await this.tryAcquire(options);
    if (lease !== null) return { ran: true, value: await runHeld(lease, fn) };
    const view = await lookAt(this.#connection, this.name, MOST_LOOKED_AT);
    return { ran: false, blockers: view?.holders ?? [] };
  }

  /** By the own call chain if it holds this lock already, else by the engine. */
  async #enter(options: AcquireOptions): Promise<Lease | undefined> {
    const connection = this.#connection;
    const ask = options === NO_OPTIONS ? this.#plain : readOptions(this.#resource, options, this.#defaults);
    const outer = chainOf(options.within);
    const own = heldInChain(outer, connection, this.name);
    if (own !== undefined && (ask.reentrant || options.within)) return own.reenter(ask.waitMs, ask.signal);
    if (own !== undefined && ask.waitMs > 0) throw selfDeadlock(this.name);
    const startMs = nowMs();
    const hold = await traced(connection, ask);
    if (hold === undefined) return undefined;
    if (connection.events.wants("acquired")) {
      const { name } = this;
      const waitedMs = nowMs() - startMs;
      connection.events.emit({ type: "acquired", name, group: groupOf(name), token: hold.token, waitedMs });
    }
    return new Lease(hold, outer);
  }
}

function traced(connection: Connection, ask: Ask): Promise<Hold | undefined> {
  if (!traceAcquire.hasSubscribers) return acquire(connection, ask);
  const context: TraceContext = {
    name: ask.name,
    group: groupOf(ask.name),
    engine: connection.backend.traits.engine,
  };
  return traceAcquire.tracePromise(async () => {
    const hold = await acquire(connection, ask);
    if (hold !== undefined) context.token = hold.token;
    return hold;
  }, context);
}

/** Who only tries does not wait, and cannot be told how long. */
function onceOnly(options: TryOptions): AcquireOptions {
  knownOptions(options, TRY_OPTIONS, "a lock that is only tried");
  return { ...options, wait: 0 };
}

function callbackLast<O extends object, T>(
  args: readonly [Callback<T>] | readonly [O, Callback<T>],
): [O, Callback<T>] {
  const [options, fn] = args.length === 1 ? [NO_OPTIONS as O, args[0]] : args;
  if (typeof fn !== "function") throw invalidOption("run: the last argument must be the function to run.");
  return [options, fn];
}
