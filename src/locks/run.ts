import type { AnyLease } from "../core/any-lease.js";
import { type TraceContext, traceHold } from "../core/events.js";
import type { HeldClaim } from "../core/held-claim.js";
import { runInChain } from "../core/reentrancy.js";
import type { Callback } from "./lockable.js";

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
