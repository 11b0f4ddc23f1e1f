import { WHOLE } from "../core/claim.js";
import type { Connection } from "../core/connection.js";
import { invalidOption, LockError } from "../core/errors.js";
import { type Defaults, knownOptions, maxWaitersOption } from "../core/options.js";
import { EngineLock, type Lockable } from "./lockable.js";

export interface MutexOptions {
  /** Inside `run`, the same call chain may enter again. */
  readonly reentrant?: boolean;
  /** Strict arrival order across processes. Every engine with a queue has it; say so where you rely on it. */
  readonly fair?: boolean;
  /** Do not queue behind more than this many. */
  readonly maxWaiters?: number;
}

const KNOWN = new Set<string>(["reentrant", "fair", "maxWaiters"] satisfies (keyof MutexOptions)[]);

/** One holder at a time: the claim weighs as much as there is. */
export function createMutex(
  connection: Connection,
  name: string,
  options: MutexOptions,
  defaults: Pick<Defaults, "ttlMs" | "waitMs">,
): Lockable {
  knownOptions(options, KNOWN, `mutex "${name}"`);
  for (const key of ["reentrant", "fair"] as const) {
    if (options[key] !== undefined && typeof options[key] !== "boolean") {
      throw invalidOption(`${key}: must be true or false.`, name);
    }
  }
  const { engine, queueing } = connection.backend.traits;
  if (!queueing && (options.fair === true || options.maxWaiters !== undefined)) {
    const asked = options.fair === true ? "fair" : "maxWaiters";
    throw new LockError("unsupported", `${asked}: ${engine} keeps no queue, so there is no order to keep.`, {
      name,
    });
  }
  const maxWaiters = options.maxWaiters === undefined ? undefined : maxWaitersOption(options.maxWaiters);
  return new EngineLock(
    connection,
    { name, weight: WHOLE, capacity: WHOLE },
    { ...defaults, reentrant: options.reentrant ?? false, maxWaiters },
  );
}
