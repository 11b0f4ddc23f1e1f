/** The capacity of everything that is held exclusively, and the weight of an exclusive claim. */
export const WHOLE = 2 ** 31 - 1;

/** A token is `ticket × TOKEN_STEP + hand-off number`: room for hand-offs inside one process. */
export const TOKEN_STEP = 1024n;

/** Which process has made a claim; shown to people, never used to decide anything. */
export interface Owner {
  /** The name of the program, from `owner.service`. */
  readonly service?: string;
  /** Tells processes apart: from `owner.instance`, else the name of the machine and the number of the process. */
  readonly instance: string;
  /** Of the program, from `owner.version`. */
  readonly version?: string;
  /** The name of its machine. */
  readonly host: string;
  /** The number of its process on that machine. */
  readonly pid: number;
  /** Names and tokens of what its call chain holds, if it asks for more. */
  readonly holds?: readonly (readonly [name: string, token: string])[];
  /** How many tasks of that process the claim stands for; absent: one. */
  readonly tasks?: number;
  /** The hand-off number of the task that holds it; absent: 0. */
  readonly number?: number;
  /** The process may keep the claim for a while when no task needs it. */
  readonly sticky?: true;
}

/**
 * A claim in the queue of a name. The id is a capability (a program that knows it can release the claim), so it is never
 * logged or shown; the ticket is public and orders everything.
 */
export interface Claim {
  readonly name: string;
  readonly id: string;
  readonly ticket: bigint;
}

/**
 * The one rule. Of claims in ticket order, a claim is granted if and only if the weights of all live
 * claims ahead of it, plus its own, fit the capacity. The granted ones are therefore always a prefix;
 * its length is the answer.
 */
export function admit(claims: readonly { readonly weight: number }[], capacity: number): number {
  let total = 0;
  let granted = 0;
  for (const { weight } of claims) {
    total += weight;
    if (total > capacity) break;
    granted++;
  }
  return granted;
}

/**
 * Of the claims ahead of a waiting one, in ticket order, those that it has to watch: while all of them stand,
 * it cannot be admitted, whatever the others do. Nothing if it is admitted.
 */
export function worthWatching<T extends { readonly weight: number }>(
  ahead: readonly T[],
  weight: number,
  capacity: number,
): readonly T[] {
  const room = capacity - weight;
  let total = 0;
  for (let at = ahead.length - 1; at >= 0; at--) {
    const farthest = ahead[at] as T;
    total += farthest.weight;
    if (total > room) return farthest.weight > room ? [farthest] : ahead.slice(at);
  }
  return [];
}

/** The token of a task: the first one of a claim has the number 0. */
export function tokenOf(ticket: bigint, number = 0): bigint {
  return ticket * TOKEN_STEP + BigInt(number);
}

export function ticketOf(token: bigint): bigint {
  return token / TOKEN_STEP;
}

/** A claim as people may see it: everything but its id. */
export interface ClaimView {
  /** Of a holder, its fencing token; of a waiter, the one that it would have. */
  readonly token: bigint;
  /** `"exclusive"`: a mutex, or the write side of a read-write lock. */
  readonly mode: "exclusive" | "shared";
  /** How many permits of a semaphore it has, or asks for. */
  readonly permits?: number;
  /** How many tasks of its process it stands for, if several: one that holds, and those that wait behind it. */
  readonly tasks?: number;
  /** Its process may keep it for a while when no task needs it: `"idle"` if this process knows that none does now. */
  readonly sticky?: true | "idle";
  /** From the option `note`, or `lease.update`; as it was written, control characters included. */
  readonly note: string;
  /** The process that has made it. */
  readonly owner: Owner;
  /** Holders: since the grant. Waiters: since they came. */
  readonly ageMs: number;
  /** How long it lives if it is not renewed. */
  readonly remainingMs: number;
}

/** The queue of one name, as `inspect` and `list` show it. It may have changed by the time it is read. */
export interface ResourceView {
  /** The whole name, with its scope. */
  readonly name: string;
  /** How many permits there are in all, if it is in use as a semaphore. */
  readonly permits?: number;
  /** In the order of their tickets. */
  readonly holders: readonly ClaimView[];
  /** In the order of their tickets: the first one is next. */
  readonly waiters: readonly ClaimView[];
  /** If holders and waiters wait for each other: which of them holds what, and waits for what. */
  readonly deadlock?: readonly DeadlockStep[];
}

/** A claim of a deadlock: what its process holds, and the name it waits for, which the next step holds. */
export interface DeadlockStep {
  /** The process that waits. */
  readonly owner: Owner;
  /** A name that it holds, and that the step before it waits for. */
  readonly holds: string;
  /** The name that it waits for. */
  readonly waitsFor: string;
}
