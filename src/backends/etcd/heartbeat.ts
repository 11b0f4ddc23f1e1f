import type { Renewal } from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import { MOST_QUESTIONS } from "./messages.js";
import type { OwnClaim } from "./own-claim.js";
import type { EtcdRpc } from "./rpc.js";
import { type Session, textOf } from "./session.js";

/** One refreshing for all places of a session. What was granted stays granted; who waits is told of its turn. */
export async function heartbeat(
  rpc: EtcdRpc,
  session: Session,
  places: readonly OwnClaim[],
): Promise<ReadonlyMap<OwnClaim, Renewal | "missing">> {
  const told = new Map<OwnClaim, Renewal | "missing">();
  const madeMs = Math.max(...places.map((ownClaim) => ownClaim.madeMs));
  const keys = session.gone ? undefined : await session.inventory(madeMs);
  if (keys === undefined) {
    for (const ownClaim of places) told.set(ownClaim, { state: "gone", loss: "session" });
    return told;
  }
  const remainingMs = session.remainingMs();
  const waiting: OwnClaim[] = [];
  for (const ownClaim of places) {
    // It has got a lease of its own while we asked.
    if (ownClaim.alone !== undefined)
      told.set(ownClaim, { state: "held", remainingMs: ownClaim.remainingMs() });
    else if (!keys.has(textOf(ownClaim.key))) told.set(ownClaim, "missing");
    else if (ownClaim.grantedAtMs === undefined) waiting.push(ownClaim);
    else told.set(ownClaim, { state: "held", remainingMs });
  }
  for (let from = 0; from < waiting.length; from += MOST_QUESTIONS) {
    const some = waiting.slice(from, from + MOST_QUESTIONS);
    const questions = some.map((ownClaim) => ownClaim.queue.ahead(ownClaim.ticket ?? 0n, ownClaim));
    const { responses } = await rpc.txn({ success: questions });
    for (const [index, ownClaim] of some.entries()) {
      const ahead = ownClaim.queue.read(responses[index]?.response_range);
      const waits = worthWatching(ahead, ownClaim.weight, ownClaim.capacity).length > 0;
      told.set(
        ownClaim,
        waits ? { state: "waiting", remainingMs, changeInMs: Infinity } : { state: "held", remainingMs },
      );
    }
  }
  return told;
}
