import { type ResourceView, TOKEN_STEP } from "../core/claim.js";
import type { Lease, SharedLease } from "../core/lease.js";
import type { AcquireOptions, TryOptions } from "../core/options.js";
import type { Callback, Lockable } from "../locks/lockable.js";
import type { Locks } from "../locks/locks.js";
import type { MutexOptions } from "../locks/mutex.js";
import type { PermitOptions } from "../locks/semaphore.js";

/** Other locks that have to behave as a mutex does. */
export type MutexAdapter = "write side" | "last permit";

const PERMITS = 3;
const DRAIN = "all permits but one";

/** All permits of a name but one are taken, once, by a holder that stays. */
export type Drain = (name: string) => Promise<void>;

/** Locks whose mutexes are something else in truth. */
export function disguised(locks: Locks, as: MutexAdapter, drain: Drain): Locks {
  const own: Partial<Record<PropertyKey, unknown>> = {
    mutex: (name: string, options: MutexOptions = {}) =>
      as === "write side" ? locks.readWrite(name, options).write : lastPermit(locks, name, options, drain),
    scope: (...parts: [string, ...string[]]) => disguised(locks.scope(...parts), as, drain),
    inspect: async (name: string) => withoutDrain(await locks.inspect(name)),
    async *list(query: { prefix?: string }) {
      for await (const view of locks.list(query)) yield withoutDrain(view);
    },
  };
  return new Proxy(locks, {
    get: (_, key) => {
      const value = own[key] ?? Reflect.get(locks, key, locks);
      return typeof value === "function" ? value.bind(locks) : value;
    },
  });
}

export async function takeAllButOne(locks: Locks, name: string): Promise<void> {
  await locks.semaphore(name, PERMITS).acquire({ weight: PERMITS - 1, note: DRAIN });
}

function withoutDrain(view: ResourceView): ResourceView {
  return { ...view, holders: view.holders.filter(({ note }) => note !== DRAIN) };
}

function lastPermit(locks: Locks, name: string, options: MutexOptions, drain: Drain): Lockable {
  const semaphore = locks.semaphore(name, PERMITS, options);
  const full = semaphore.name;
  const drained = async <T>(act: () => Promise<T>): Promise<T> => {
    await drain(full);
    return act();
  };
  const fitting = <O extends AcquireOptions | TryOptions>(given: O) => given as PermitOptions;
  const run = <T>(args: readonly unknown[]): [PermitOptions, Callback<T, SharedLease>] => {
    const [given, fn] = args.length === 1 ? [{}, args[0]] : args;
    const callback = fn as Callback<T>;
    // What is no function has to be refused as such.
    const wrapped = (lease: SharedLease) => callback(withToken(lease));
    return [given as PermitOptions, typeof callback === "function" ? wrapped : callback];
  };
  return {
    name: full,
    acquire: (given = {}) => drained(async () => withToken(await semaphore.acquire(fitting(given)))),
    tryAcquire: (given = {}) =>
      drained(async () => {
        const lease = await semaphore.tryAcquire(fitting(given));
        return lease === null ? null : withToken(lease);
      }),
    run: <T>(...args: readonly unknown[]) => drained(() => semaphore.run(...run<T>(args))),
    tryRun: <T>(...args: readonly unknown[]) =>
      drained(async () => {
        const tried = await semaphore.tryRun(...run<T>(args));
        return tried.ran
          ? tried
          : { ...tried, blockers: tried.blockers.filter(({ note }) => note !== DRAIN) };
      }),
  };
}

/** With the token that a mutex would have had. */
function withToken(lease: SharedLease): Lease {
  const disguise = new Proxy(lease, {
    get: (_, key) => {
      const value = key === "token" ? lease.ticket * TOKEN_STEP : Reflect.get(lease, key, lease);
      return typeof value === "function" ? value.bind(lease) : value;
    },
  });
  return disguise as unknown as Lease;
}
