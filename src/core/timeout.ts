import { type CircleStep, describeCircle, findCircle } from "./circle.js";
import { tokenOf } from "./claim.js";
import type { Connection } from "./connection.js";
import { formatMs } from "./duration.js";
import { LockTimeoutError } from "./errors.js";
import { describeHolder, type ResourceView } from "./inspect.js";
import { lookTogether, MOST_LOOKED_AT } from "./look.js";

/** The error of a wait that was too long: who holds the lock, from where, since when, and my place. */
export async function timeoutError(
  connection: Connection,
  name: string,
  waitedMs: number,
  ticket?: bigint,
): Promise<LockTimeoutError> {
  const view = await lookTogether(connection, name);
  const mine = ticket === undefined ? undefined : tokenOf(ticket);
  const blockers = (view?.holders ?? []).filter((holder) => holder.token !== mine);
  const index = view?.waiters.findIndex((waiter) => waiter.token === mine) ?? -1;
  const place = index === -1 ? undefined : index + 1;
  const circle = view && (await circleOf(connection, view));
  const lines = [
    waitedMs === 0 ? `"${name}" is taken` : `gave up on "${name}" after waiting ${formatMs(waitedMs)}`,
    ...blockers.slice(0, 3).map((holder) => `  held by ${describeHolder(holder)}`),
    ...(blockers.length > 3 ? [`  and by ${blockers.length - 3} more`] : []),
    ...(blockers.length === 0 ? ["  nobody holds it any more"] : []),
    ...placeLine(place, view, ticket),
    ...(circle === undefined ? [] : describeCircle(circle)),
  ];
  return new LockTimeoutError(name, lines.join("\n"), { blockers, place, waitedMs, circle });
}

/** It is only for people: that it cannot be found out must not replace the error. */
function circleOf(connection: Connection, view: ResourceView): Promise<readonly CircleStep[] | undefined> {
  return findCircle(connection, view).catch(() => undefined);
}

function placeLine(
  place: number | undefined,
  view: ResourceView | undefined,
  ticket: bigint | undefined,
): string[] {
  if (view === undefined || ticket === undefined) return [];
  const seen = view.holders.length + view.waiters.length;
  if (place !== undefined)
    return [
      `  my place in the queue was ${place} of ${seen < MOST_LOOKED_AT ? view.waiters.length : "many"}`,
    ];
  return seen < MOST_LOOKED_AT ? [] : [`  my place in the queue was behind the first ${view.waiters.length}`];
}
