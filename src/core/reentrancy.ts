import { AsyncLocalStorage } from "node:async_hooks";
import { type AnyLease, type Frame, frameOf } from "./any-lease.js";
import { type Owner, WHOLE } from "./claim.js";
import type { Connection } from "./connection.js";
import { LockError } from "./errors.js";
import type { HeldClaim } from "./held-claim.js";
import { ClaimLease } from "./lease.js";

/**
 * The call chain carries live leases, not flags: work that outlives its lease is a stranger and queues
 * like any other caller.
 */
const MOST_SHOWN = 16;

const chain = new AsyncLocalStorage<Frame | undefined>();

export function runInChain<T>(lease: AnyLease, work: () => T): T {
  return chain.run(lease.frame, work);
}

/** The chain that a new lease belongs to: the caller's, an explicit one, or none. */
export function chainOf(within: AnyLease | null | undefined): Frame | undefined {
  if (within === null) return undefined;
  const here = withoutDead(chain.getStore());
  if (within === undefined) return here;
  const frame = frameOf(within);
  // A call that is already inside that lease goes on from there, or it would wait for itself.
  for (let at = here; at !== undefined; at = at.outer) if (at === frame) return here;
  return frame;
}

/**
 * A job that starts its successor from inside itself hands its chain on for ever: leases that are over leave
 * it, or it would grow, and keep them in memory.
 */
function withoutDead(frame: Frame | undefined): Frame | undefined {
  let first = frame;
  while (first !== undefined && !first.lease.held) first = first.outer;
  for (let at = first; at?.outer !== undefined; ) {
    if (at.outer.lease.held) at = at.outer;
    else at.outer = at.outer.outer;
  }
  return first;
}

/** The innermost lease of this chain on that very lock, if it is still held. */
export function heldInChain(
  frame: Frame | undefined,
  connection: Connection,
  name: string,
): ClaimLease | undefined {
  for (let at = frame; at !== undefined; at = at.outer) {
    const { lease } = at;
    if (!(lease instanceof ClaimLease)) continue;
    if (lease.name === name && lease.heldClaim.connection === connection && lease.held) return lease;
  }
  return undefined;
}

/** The claims that this chain holds there. */
function holdsIn(frame: Frame | undefined, connection: Connection): readonly HeldClaim[] {
  const holds = new Set<HeldClaim>();
  for (let at = frame; at !== undefined; at = at.outer) {
    if (at.lease.held) for (const heldClaim of at.lease.holds) holds.add(heldClaim);
  }
  return [...holds].filter((heldClaim) => heldClaim.connection === connection);
}

/** What this chain holds, and these leases, for the deadlock search of other processes; `undefined` if nothing. */
export function shownHolds(
  frame: Frame | undefined,
  connection: Connection,
  leases: readonly AnyLease[] = [],
): Owner["holds"] {
  if (frame === undefined && leases.length === 0) return undefined;
  // The chain first: leases that are taken in one order with what is asked for make no deadlock by themselves.
  const holds = new Set([...holdsIn(frame, connection), ...leases.flatMap((lease) => lease.holds)]);
  const shown = [...holds].slice(0, MOST_SHOWN);
  return shown.length === 0 ? undefined : shown.map(({ name, token }) => [name, String(token)] as const);
}

/** The names of everything that this chain holds there. */
export function namesInChain(frame: Frame | undefined, connection: Connection): readonly string[] {
  return [...new Set(holdsIn(frame, connection).map(({ name }) => name))];
}

/** How many permits of that name this chain holds; what is held exclusively is none. */
export function permitsInChain(frame: Frame | undefined, connection: Connection, name: string): number {
  const own = holdsIn(frame, connection).filter(
    (heldClaim) => heldClaim.name === name && heldClaim.request.capacity !== WHOLE,
  );
  return own.reduce((sum, heldClaim) => sum + heldClaim.request.weight, 0);
}

export function selfDeadlock(name: string): LockError {
  return new LockError(
    "self-deadlock",
    `this call chain already holds "${name}" and would wait for itself. Pass the lease on, use { reentrant: true }, or say { within: null } if this work is independent.`,
    { name },
  );
}

/** Two readers who both wait to write would wait for each other for ever. */
export function upgrade(name: string): LockError {
  return new LockError(
    "upgrade",
    `this call chain holds "${name}" to read and asks to write. Give the read lock back first and look again at what was read, or ask to write from the start.`,
    { name },
  );
}
