import type { Renewal } from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import { MOST_QUESTIONS } from "./messages.js";
import type { EtcdPlace } from "./place.js";
import type { EtcdRpc } from "./rpc.js";
import { type Session, textOf } from "./session.js";

/** One refreshing for all places of a session. What was granted stays granted; who waits is told of its turn. */
export async function heartbeat(
  rpc: EtcdRpc,
  session: Session,
  places: readonly EtcdPlace[],
): Promise<ReadonlyMap<EtcdPlace, Renewal | "missing">> {
  const told = new Map<EtcdPlace, Renewal | "missing">();
  const madeMs = Math.max(...places.map((place) => place.madeMs));
  const keys = session.gone ? undefined : await session.inventory(madeMs);
  if (keys === undefined) {
    for (const place of places) told.set(place, { state: "gone", loss: "session" });
    return told;
  }
  const remainingMs = session.remainingMs();
  const waiting: EtcdPlace[] = [];
  for (const place of places) {
    // It has got a lease of its own while we asked.
    if (place.alone !== undefined) told.set(place, { state: "held", remainingMs: place.remainingMs() });
    else if (!keys.has(textOf(place.key))) told.set(place, "missing");
    else if (place.grantedAtMs === undefined) waiting.push(place);
    else told.set(place, { state: "held", remainingMs });
  }
  for (let from = 0; from < waiting.length; from += MOST_QUESTIONS) {
    const some = waiting.slice(from, from + MOST_QUESTIONS);
    const questions = some.map((place) => place.line.ahead(place.ticket ?? 0n, place));
    const { responses } = await rpc.txn({ success: questions });
    for (const [index, place] of some.entries()) {
      const ahead = place.line.read(responses[index]?.response_range);
      const waits = worthWatching(ahead, place.weight, place.capacity).length > 0;
      told.set(
        place,
        waits ? { state: "waiting", remainingMs, changeInMs: Infinity } : { state: "held", remainingMs },
      );
    }
  }
  return told;
}
