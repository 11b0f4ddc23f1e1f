import type { Ask } from "./ask.js";
import type { Answer } from "./backend.js";
import { formatMs } from "./duration.js";
import { backendError, LockError } from "./errors.js";

// Why a wait ends without a lease, other than by its own time.

/** The engine has kept nothing, for a reason that asking again does not mend. */
export function refusal(
  ask: Ask,
  answer: Extract<Answer, { state: "queue-full" | "capacity-mismatch" }>,
): LockError {
  if (answer.state === "queue-full") {
    return new LockError(
      "queue-full",
      `"${ask.name}" already has ${answer.waiters} waiting, and maxWaiters is ${ask.maxWaiters}. Try later, or shed the load.`,
      { name: ask.name, retryable: true },
    );
  }
  return new LockError(
    "capacity-mismatch",
    `"${ask.name}" is in use with a capacity of ${answer.capacity}, and this claim says ${ask.capacity}. Let everybody agree on the number of permits.`,
    { name: ask.name },
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
export function tooSlow({ name, ttlMs }: Ask): LockError {
  return backendError(
    `"${name}" was granted, but the answer took longer than its ttl of ${formatMs(ttlMs)}. Raise the ttl, or look at the network.`,
    { name, retryable: true },
  );
}
