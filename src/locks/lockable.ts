import type { AnyLease } from "../core/any-lease.js";
import type { ClaimView } from "../core/claim.js";
import type { Connection } from "../core/connection.js";
import { invalidOption } from "../core/errors.js";
import { type TraceContext, traceHold } from "../core/events.js";
import type { HeldClaim } from "../core/held-claim.js";
import type { Lease } from "../core/lease.js";
import type { AcquireOptions, TryOptionsOf } from "../core/options.js";
import { runInChain } from "../core/reentrancy.js";

/** What `tryRun` resolves to: look at `ran` first. */
export type TryRun<T> =
  | {
      /** The lock was free, and the function has run. */
      readonly ran: true;
      /** What the function returned. */
      readonly value: T;
    }
  | {
      /** The lock was taken, and the function was not called. */
      readonly ran: false;
      /** The holders at that moment. */
      readonly blockers: readonly ClaimView[];
    };

/** The work that is done under a lease. It should stop when `lease.signal` aborts. */
export type Callback<T, L extends AnyLease = Lease> = (lease: L) => T | PromiseLike<T>;

/** Everything that can be held. */
export interface Lockable<L extends AnyLease = Lease, O extends AcquireOptions = AcquireOptions> {
  /** The whole name, with its scope: parts are joined by `:`. */
  readonly name: string;
  /**
   * Waits for the lock, and gives a lease that the caller has to release; prefer `run`. Rejects with a `LockTimeoutError`
   * that names the holders. The lease is renewed until it is released, also if the work has failed: use `await using`, or
   * `finally`.
   *
   * @example
   * ```ts
   * await using lease = await locks.mutex("report").acquire({ wait: "5s" });
   * await work(lease.signal);
   * ```
   */
  acquire(options?: O): Promise<L>;
  /**
   * Asks once, and leaves no trace in the queue: a lease to release, or `null` if the lock is taken.
   *
   * @example
   * ```ts
   * await using lease = await locks.mutex("report").tryAcquire();
   * if (lease !== null) await work(lease.signal);
   * ```
   */
  tryAcquire(options?: TryOptionsOf<O>): Promise<L | null>;
  /**
   * Waits for the lock, calls `fn`, renews the lease meanwhile, and releases it. Resolves to what `fn` returns. Rejects
   * with a `LockTimeoutError` if the wait is too long, and with a `LeaseLostError` if the lease was lost while `fn` ran.
   *
   * @example
   * ```ts
   * await locks.mutex("report").run((lease) => work(lease.signal));
   * ```
   */
  run<T>(fn: Callback<T, L>): Promise<T>;
  /**
   * Waits for the lock, calls `fn`, renews the lease meanwhile, and releases it. Resolves to what `fn` returns. Rejects
   * with a `LockTimeoutError` if the wait is too long, and with a `LeaseLostError` if the lease was lost while `fn` ran.
   *
   * @example
   * ```ts
   * await locks.mutex("report").run({ wait: "5s" }, (lease) => work(lease.signal));
   * ```
   */
  run<T>(options: O, fn: Callback<T, L>): Promise<T>;
  /**
   * Calls `fn` only if the lock is free right now, and does not wait. That the lock is taken is no error: see `ran`.
   *
   * @example
   * ```ts
   * const { ran } = await locks.mutex("nightly").tryRun(() => work());
   * if (!ran) console.log("another process does it");
   * ```
   */
  tryRun<T>(fn: Callback<T, L>): Promise<TryRun<T>>;
  /** Calls `fn` only if the lock is free right now, and does not wait. That the lock is taken is no error: see `ran`. */
  tryRun<T>(options: TryOptionsOf<O>, fn: Callback<T, L>): Promise<TryRun<T>>;
}

/** It is taken, and the caller did not want to wait; `told` is the error for a caller that has to get one. */
export interface Taken {
  readonly blockers: () => Promise<readonly ClaimView[]>;
  readonly told: () => Promise<Error>;
}

/** The four ways to hold something, for whatever knows how to enter. */
export abstract class Holdable<L extends AnyLease, O extends AcquireOptions = AcquireOptions>
  implements Lockable<L, O>
{
  abstract readonly name: string;
  /** @internal */
  abstract readonly connection: Connection;
  /** `besides`: what else is held for the same purpose, though not by the call chain yet. @internal */
  abstract enter(options?: O, besides?: readonly AnyLease[]): Promise<L | Taken>;

  acquire(options?: O): Promise<L> {
    const here = this.connection.leaks.stackHere(this.acquire);
    return this.enter(options).then((entered) =>
      isTaken(entered) ? entered.told().then(rejected) : this.#watched(entered, options, here),
    );
  }

  async tryAcquire(options?: TryOptionsOf<O>): Promise<L | null> {
    const here = this.connection.leaks.stackHere(this.tryAcquire);
    const entered = await this.enter(onceOnly<O>(options));
    return isTaken(entered) ? null : this.#watched(entered, options, here);
  }

  async run<T>(...args: [Callback<T, L>] | [O, Callback<T, L>]): Promise<T> {
    const [options, fn] = callbackLast<O, Callback<T, L>>(args);
    const entered = await this.enter(options);
    if (isTaken(entered)) throw await entered.told();
    return runHeld(entered, fn);
  }

  /** Only what the caller has to release can be forgotten. */
  #watched(
    lease: L,
    options: { readonly keep?: boolean | undefined } | undefined,
    here: ReturnType<Connection["leaks"]["stackHere"]>,
  ): L {
    if (options?.keep !== true) lease.watchedBy(this.connection.leaks, here);
    return lease;
  }

  async tryRun<T>(...args: [Callback<T, L>] | [TryOptionsOf<O>, Callback<T, L>]): Promise<TryRun<T>> {
    const [options, fn] = callbackLast<TryOptionsOf<O>, Callback<T, L>>(args);
    const entered = await this.enter(onceOnly<O>(options));
    if (isTaken(entered)) return { ran: false, blockers: await entered.blockers() };
    return { ran: true, value: await runHeld(entered, fn) };
  }
}

function rejected(error: Error): Promise<never> {
  return Promise.reject(error);
}

export function isTaken(entered: AnyLease | Taken): entered is Taken {
  return "told" in entered;
}

/** A caller that only tries does not wait, so it cannot say how long. */
function onceOnly<O extends AcquireOptions>(options: TryOptionsOf<O> | undefined): O {
  if (options === undefined) return { wait: 0 } as O;
  if (typeof options !== "object" || options === null) throw invalidOption("the options must be an object.");
  for (const key of ["wait", "maxWaiters"]) {
    if ((options as Record<string, unknown>)[key] !== undefined)
      throw invalidOption(`${key}: a lock that is only tried is not waited for.`);
  }
  return { ...options, wait: 0 } as unknown as O;
}

function callbackLast<O extends { readonly keep?: boolean | undefined }, F>(
  args: readonly [F] | readonly [O, F],
): [O | undefined, F] {
  const [options, fn] = args.length === 1 ? [undefined, args[0]] : args;
  if (typeof fn !== "function") throw invalidOption("run: the last argument must be the function to run.");
  if (options?.keep !== undefined)
    throw invalidOption("keep: only for acquire(); run() gives its lock back.");
  return [options, fn];
}

/**
 * Runs the callback under its lease and gives the lease back. Settles only after the callback has; the
 * callback's own error wins, then the loss of the lease; a failed release is an event.
 */
export function runHeld<T, L extends AnyLease>(lease: L, fn: Callback<T, L>): Promise<T> {
  const { holds } = lease;
  const [{ connection }] = holds as [HeldClaim];
  const { runs, renewer } = connection;
  for (const heldClaim of holds) heldClaim.running++;
  const running: Promise<T> = perform(lease, fn).finally(() => {
    for (const heldClaim of holds) heldClaim.running--;
    runs.delete(running);
    if (runs.size === 0) renewer.working = false;
  });
  if (runs.size === 0) renewer.working = true;
  runs.add(running);
  return running;
}

async function perform<T, L extends AnyLease>(lease: L, fn: Callback<T, L>): Promise<T> {
  try {
    // The event loop may have been blocked between the grant and here.
    lease.assertHeld();
    const value = await start(lease, fn);
    // Judged before the release: afterwards it could not be told.
    const overran = !lease.released && !lease.held;
    const wasHeld = await giveBack(lease);
    if (overran || lease.holds.some((heldClaim) => heldClaim.lost !== undefined)) throw lease.lossError();
    if (!wasHeld) throw lease.lossError("taken");
    return value;
  } catch (error) {
    await giveBack(lease);
    // A loss was made by a timer or a message: a reader of its stack looks for the run that it has ended.
    if (lease.holds.some((heldClaim) => heldClaim.lost === error))
      Error.captureStackTrace(error as Error, perform);
    throw error;
  }
}

async function start<T, L extends AnyLease>(lease: L, fn: Callback<T, L>): Promise<T> {
  if (!traceHold.hasSubscribers) return runInChain(lease, () => fn(lease));
  const [{ claim, token, connection }] = lease.holds as [HeldClaim];
  const context: TraceContext = { ...connection.about(claim), token };
  return traceHold.tracePromise(async () => runInChain(lease, () => fn(lease)), context);
}

async function giveBack(lease: AnyLease): Promise<boolean> {
  try {
    return await lease.release();
  } catch (error) {
    const [heldClaim] = lease.holds;
    heldClaim?.connection.releaseFailed(heldClaim.claim, error);
    return true;
  }
}
