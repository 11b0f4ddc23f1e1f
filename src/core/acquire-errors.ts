import type { AcquireRequest } from "./acquire-request.js";
import { formatMs } from "./duration.js";
import { backendError, LockError } from "./errors.js";

// Why a wait ends without a lease, other than by its own time.

/** The engine has kept nothing, because too many wait already. */
export function queueFull({ name, maxWaiters }: AcquireRequest, waiters: number): LockError {
  return new LockError(
    "queue-full",
    `"${name}" already has ${waiters} waiting, and maxWaiters is ${maxWaiters}. Try later, or shed the load.`,
    { name, retryable: true },
  );
}

/** The engine could not be asked for longer than was bearable. */
export function outage(name: string, outageMs: number, cause: LockError): LockError {
  return backendError(`no answer about "${name}" for ${formatMs(outageMs)}: ${cause.message}`, {
    name,
    retryable: true,
    cause: cause.cause ?? cause,
  });
}

/** The grant came when nothing of it was left. */
export function tooSlow({ name, ttlMs }: AcquireRequest): LockError {
  return backendError(
    `"${name}" was granted, but the answer took longer than its ttl of ${formatMs(ttlMs)}. Raise the ttl, or look at the network.`,
    { name, retryable: true },
  );
}
