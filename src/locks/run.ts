import type { AnyLease } from "../core/any-lease.js";
import { type TraceContext, traceHold } from "../core/events.js";
import type { Hold } from "../core/hold.js";
import { runInChain } from "../core/reentry.js";
import type { Callback } from "./lockable.js";

/**
 * Runs the callback under its lease and gives the lease back. Settles only after the callback has; the
 * callback's own error wins, then the loss of the lease; a failed release is an event.
 */
export function runHeld<T, L extends AnyLease>(lease: L, fn: Callback<T, L>): Promise<T> {
  const { holds } = lease;
  const [{ connection }] = holds as [Hold];
  const { runs, keeper } = connection;
  for (const hold of holds) hold.running++;
  const running: Promise<T> = perform(lease, fn).finally(() => {
    for (const hold of holds) hold.running--;
    runs.delete(running);
    if (runs.size === 0) keeper.working = false;
  });
  if (runs.size === 0) keeper.working = true;
  runs.add(running);
  return running;
}

async function perform<T, L extends AnyLease>(lease: L, fn: Callback<T, L>): Promise<T> {
  try {
    // Somebody may have blocked the loop between the grant and here.
    lease.assertHeld();
    const value = await start(lease, fn);
    // Judged before the release: afterwards nobody could tell.
    const overran = !lease.released && !lease.held;
    const wasHeld = await giveBack(lease);
    if (overran || lease.holds.some((hold) => hold.lost !== undefined)) throw lease.lossError();
    if (!wasHeld) throw lease.lossError("taken");
    return value;
  } catch (error) {
    await giveBack(lease);
    // A loss was made by a timer or a message: whoever reads its stack looks for the run that it has ended.
    if (lease.holds.some((hold) => hold.lost === error)) Error.captureStackTrace(error as Error, perform);
    throw error;
  }
}

async function start<T, L extends AnyLease>(lease: L, fn: Callback<T, L>): Promise<T> {
  if (!traceHold.hasSubscribers) return runInChain(lease, () => fn(lease));
  const [{ place, token, connection }] = lease.holds as [Hold];
  const context: TraceContext = { ...connection.about(place), token };
  return traceHold.tracePromise(async () => runInChain(lease, () => fn(lease)), context);
}

async function giveBack(lease: AnyLease): Promise<boolean> {
  try {
    return await lease.release();
  } catch (error) {
    const [hold] = lease.holds;
    hold?.connection.releaseFailed(hold.place, error);
    return true;
  }
}
