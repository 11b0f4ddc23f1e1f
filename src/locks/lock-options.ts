import type { Connection } from "../core/connection.js";
import { LockError } from "../core/errors.js";
import { type Defaults, flag, maxWaitersOption } from "../core/options.js";

/** What every kind of lock can be told when it is made. */
export interface LockOptions {
  /** Inside `run`, the same call chain may enter again. */
  readonly reentrant?: boolean | undefined;
  /** Do not queue behind more than this many. */
  readonly maxWaiters?: number | undefined;
}

/** What `connect` sets for all locks. */
export type Times = Omit<Defaults, "reentrant" | "maxWaiters">;

export function readLockOptions(
  connection: Connection,
  name: string,
  { reentrant, maxWaiters }: LockOptions,
  times: Times,
): Defaults {
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
