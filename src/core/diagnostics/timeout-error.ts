import type { ResourceRecord } from "../backend.js";
import { type ClaimView, type DeadlockStep, type ResourceView, ticketOf } from "../claim.js";
import type { Connection } from "../connection.js";
import { formatMs } from "../duration.js";
import { LockTimeoutError } from "../errors.js";
import { describeDeadlock, findDeadlock } from "./deadlock.js";
import { describeHolder, lookTogether, MOST_LOOKED_AT, viewOf } from "./view.js";

/** Where a task stands among those of its process that wait for the same claim. */
export interface LocalPosition {
  readonly ahead: number;
  readonly waiting: number;
}

/** The error of a wait that was too long: who holds the lock, from where, since when, and the position in the queue. */
export async function timeoutError(
  connection: Connection,
  name: string,
  waitedMs: number,
  ticket?: bigint,
  local?: LocalPosition,
): Promise<LockTimeoutError> {
  const record = await lookTogether(connection, name);
  const view = record && viewOf(connection, record);
  const isMine = ({ token }: ClaimView) => ticketOf(token) === ticket;
  const blockers = (view?.holders ?? []).filter((holder) => !isMine(holder));
  const index = view?.waiters.findIndex(isMine) ?? -1;
  // Before it has a claim in the queue of the engine, only tasks of its own process are ahead of it.
  const claimsAhead = ticket === undefined && local !== undefined ? 0 : index;
  const position = claimsAhead === -1 ? undefined : claimsAhead + 1 + (local?.ahead ?? 0);
  const deadlock = record && (await deadlockAt(connection, record));
  const lines = [
    waitedMs === 0 ? `"${name}" is taken` : `gave up on "${name}" after waiting ${formatMs(waitedMs)}`,
    ...blockers.slice(0, 3).map((holder) => `  held by ${describeHolder(holder)}`),
    ...(blockers.length > 3 ? [`  and by ${blockers.length - 3} more`] : []),
    ...(blockers.length === 0 ? ["  it is free now: its holder has left since"] : []),
    ...positionLine(position, view, ticket, local),
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
  local: LocalPosition | undefined,
): string[] {
  if (view === undefined || (ticket === undefined && local === undefined)) return [];
  const seen = view.holders.length + view.waiters.length;
  // Its own claim stands for all of them.
  const others = local === undefined ? 0 : local.waiting - (ticket === undefined ? 0 : 1);
  if (position !== undefined)
    return [
      `  queue position ${position} of ${seen < MOST_LOOKED_AT ? view.waiters.length + others : "many"}`,
    ];
  return seen < MOST_LOOKED_AT ? [] : [`  queue position behind the first ${view.waiters.length}`];
}
