import type { ResourceRecord } from "../backend.js";
import { type DeadlockStep, type ResourceView, tokenOf } from "../claim.js";
import type { Connection } from "../connection.js";
import { formatMs } from "../duration.js";
import { LockTimeoutError } from "../errors.js";
import { describeDeadlock, findDeadlock } from "./deadlock.js";
import { describeHolder, lookTogether, MOST_LOOKED_AT, viewOf } from "./view.js";

/** The error of a wait that was too long: who holds the lock, from where, since when, and the position in the queue. */
export async function timeoutError(
  connection: Connection,
  name: string,
  waitedMs: number,
  ticket?: bigint,
): Promise<LockTimeoutError> {
  const record = await lookTogether(connection, name);
  const view = record && viewOf(record);
  const mine = ticket === undefined ? undefined : tokenOf(ticket);
  const blockers = (view?.holders ?? []).filter((holder) => holder.token !== mine);
  const index = view?.waiters.findIndex((waiter) => waiter.token === mine) ?? -1;
  const position = index === -1 ? undefined : index + 1;
  const deadlock = record && (await deadlockAt(connection, record));
  const lines = [
    waitedMs === 0 ? `"${name}" is taken` : `gave up on "${name}" after waiting ${formatMs(waitedMs)}`,
    ...blockers.slice(0, 3).map((holder) => `  held by ${describeHolder(holder)}`),
    ...(blockers.length > 3 ? [`  and by ${blockers.length - 3} more`] : []),
    ...(blockers.length === 0 ? ["  it is free now: its holder has left since"] : []),
    ...positionLine(position, view, ticket),
    ...(deadlock === undefined ? [] : describeDeadlock(deadlock)),
  ];
  return new LockTimeoutError(name, lines.join("\n"), { blockers, position, waitedMs, deadlock });
}

/** It is only for people: that it cannot be found out must not replace the error. */
function deadlockAt(
  connection: Connection,
  record: ResourceRecord,
): Promise<readonly DeadlockStep[] | undefined> {
  return findDeadlock(connection, record).catch(() => undefined);
}

function positionLine(
  position: number | undefined,
  view: ResourceView | undefined,
  ticket: bigint | undefined,
): string[] {
  if (view === undefined || ticket === undefined) return [];
  const seen = view.holders.length + view.waiters.length;
  if (position !== undefined)
    return [`  queue position ${position} of ${seen < MOST_LOOKED_AT ? view.waiters.length : "many"}`];
  return seen < MOST_LOOKED_AT ? [] : [`  queue position behind the first ${view.waiters.length}`];
}
