import { type TraceContext, traceHold } from "../core/events.js";
import type { Lease } from "../core/lease.js";
import { groupOf } from "../core/names.js";
import { runInChain } from "../core/reentry.js";
import type { Callback } from "./lockable.js";

/**
 * Runs the callback under its lease and gives the lease back. Settles only after the callback has; the
 * callback's own error wins, then the loss of the lease; a failed release is an event.
 */
export function runHeld<T>(lease: Lease, fn: Callback<T>): Promise<T> {
  const { hold } = lease;
  const { runs, keeper } = hold.connection;
  hold.running++;
  const running: Promise<T> = perform(lease, fn).finally(() => {
    hold.running--;
    runs.delete(running);
    if (runs.size === 0) keeper.working = false;
  });
  if (runs.size === 0) keeper.working = true;
  runs.add(running);
  return running;
}

async function perform<T>(lease: Lease, fn: Callback<T>): Promise<T> {
  const { hold } = lease;
  try {
    // Somebody may have blocked the loop between the grant and here.
    lease.assertHeld();
    const value = await start(lease, fn);
    // Judged before the release: afterwards nobody could tell.
    const overran = !lease.released && !lease.held;
    const stillOurs = await giveBack(lease);
    if (hold.lost !== undefined || overran) throw hold.lossError();
    if (!stillOurs) throw hold.lossError("taken");
    return value;
  } catch (error) {
    await giveBack(lease);
    throw error;
  }
}

async function start<T>(lease: Lease, fn: Callback<T>): Promise<T> {
  if (!traceHold.hasSubscribers) return runInChain(lease, () => fn(lease));
  const engine = lease.hold.connection.backend.traits.engine;
  const context: TraceContext = { name: lease.name, group: groupOf(lease.name), engine, token: lease.token };
  return traceHold.tracePromise(async () => runInChain(lease, () => fn(lease)), context);
}

async function giveBack(lease: Lease): Promise<boolean> {
  try {
    return await lease.release();
  } catch (error) {
    lease.hold.connection.releaseFailed(lease.name, error);
    return true;
  }
}
