import { WHOLE } from "../core/claim.js";
import type { Connection } from "../core/connection.js";
import type { LockKind } from "../core/events.js";
import { Lease } from "../core/lease.js";
import { flag, knownOptions } from "../core/options.js";
import { EngineLock, type LockOptions, needsQueue, readLockOptions, type Times } from "./engine-lock.js";
import type { Lockable } from "./lockable.js";

export interface MutexOptions extends LockOptions {
  /** Strict arrival order across processes. Every engine with a queue has it; say so where you rely on it. */
  readonly fair?: boolean | undefined;
}

const KNOWN = new Set<string>(["reentrant", "fair", "maxWaiters"] satisfies (keyof MutexOptions)[]);

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
  knownOptions(options, KNOWN, `mutex "${name}"`);
  const defaults = readLockOptions(connection, name, options, times);
  if (options.fair !== undefined && flag("fair", options.fair)) needsQueue(connection, name, "fair");
  return new EngineLock(connection, { name, kind, weight: WHOLE, capacity: WHOLE, Lease }, defaults);
}
