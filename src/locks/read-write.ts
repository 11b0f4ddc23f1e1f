import { WHOLE } from "../core/claim.js";
import type { Connection } from "../core/connection.js";
import { Lease, SharedLease } from "../core/lease.js";
import { knownOptions } from "../core/options.js";
import { EngineLock, type LockOptions, needsQueue, readLockOptions, type Times } from "./engine-lock.js";
import type { Lockable } from "./lockable.js";

const KNOWN = new Set<string>(["reentrant", "maxWaiters"] satisfies (keyof LockOptions)[]);

/** Many may read at once; while one writes, no other reads or writes. */
export interface ReadWriteLock {
  readonly name: string;
  readonly read: Lockable<SharedLease>;
  /** A mutex of the same name is this. */
  readonly write: Lockable;
}

/**
 * A reader weighs next to nothing, a writer as much as there is. The queue is one: readers who come after a
 * writer wait behind it, so writers never starve.
 */
export function createReadWrite(
  connection: Connection,
  name: string,
  options: LockOptions,
  times: Times,
): ReadWriteLock {
  knownOptions(options, KNOWN, `readWrite "${name}"`);
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
