import type { Connection } from "../core/connection.js";
import { type Duration, durationMs } from "../core/duration.js";
import { nextTurn } from "../core/next-turn.js";
import { knownOptions } from "../core/options.js";
import { startTimer, stopTimer } from "../core/timer.js";

export interface CloseOptions {
  /** How long running callbacks may go on; `"20s"` if not given. */
  readonly drain?: Duration | undefined;
  /** How long they get after their signals have aborted; `"5s"` if not given. */
  readonly abort?: Duration | undefined;
}

export interface CloseTimes {
  readonly drainMs: number;
  readonly abortMs: number;
}

export function readCloseOptions(options: CloseOptions): CloseTimes {
  knownOptions(options, new Set(["drain", "abort"]), "close");
  return {
    drainMs: durationMs("drain", options.drain ?? "20s"),
    abortMs: durationMs("abort", options.abort ?? "5s"),
  };
}

const closings = new WeakMap<Connection, Promise<void>>();

/**
 * No new claims; waiters withdraw; leaders are told to stop, and every other holder hears of it by `closing`.
 * Callbacks may finish, then their signals abort. One that still runs after that is not released: renewal stops and
 * the ttl ends the claim, so no second holder is let in beside the first. Of several calls the times of the first
 * one count.
 */
export function closeConnection(
  connection: Connection,
  times: CloseTimes,
  because = "close() was called on this connection",
): Promise<void> {
  const closing = closings.get(connection) ?? shutDown(connection, times, because);
  closings.set(connection, closing);
  return closing;
}

async function shutDown(
  connection: Connection,
  { drainMs, abortMs }: CloseTimes,
  because: string,
): Promise<void> {
  connection.stopEntry(because);
  // A leader works until it is told to stop: it is told at once.
  for (const grant of [...connection.grants]) if (grant.claim.kind === "election") grant.close();
  // A caller that has just been granted a lock reaches its callback in the microtasks of this turn.
  await nextTurn();
  await settled(connection.runs, drainMs);
  for (const grant of [...connection.grants]) grant.close();
  giveBackIdle(connection);
  await settled(connection.runs, abortMs);
  giveBackIdle(connection);
  await connection.finish();
}

/** A lease taken with `acquire` has no callback to wait for, or none any more. */
function giveBackIdle(connection: Connection): void {
  for (const grant of [...connection.grants]) {
    if (grant.running === 0) connection.inBackground(grant.giveBack());
  }
}

async function settled(runs: ReadonlySet<Promise<unknown>>, withinMs: number): Promise<void> {
  if (runs.size === 0) return;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((resolve) => {
    timer = startTimer(() => resolve(undefined), withinMs);
  });
  // A callback may start others by entering again, so the set is looked at until it is empty.
  const done = (async () => {
    while (runs.size > 0) await Promise.allSettled(runs);
  })();
  await Promise.race([done, late]);
  stopTimer(timer);
}
