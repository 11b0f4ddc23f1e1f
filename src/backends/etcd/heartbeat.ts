import type { Gone, Renewal } from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import type { RequestOp, TxnResponse } from "./messages.js";
import type { EtcdPlace } from "./place.js";
import type { EtcdRpc } from "./rpc.js";
import type { Session } from "./session.js";

/** A transaction may have 128 parts; a place needs two of them. */
const PLACES_AT_ONCE = 60;

/** One keep-alive for all places of a session, and a look at each of them, which also confirms it. */
export async function heartbeat(
  rpc: EtcdRpc,
  session: Session,
  places: readonly EtcdPlace[],
): Promise<ReadonlyMap<EtcdPlace, Renewal | "missing">> {
  const beat = session.gone ? undefined : await session.beat();
  if (beat === undefined) return everywhere(places, { state: "gone", loss: "session" });
  const found = new Map<EtcdPlace, boolean | "waiting">();
  for (let from = 0; from < places.length; from += PLACES_AT_ONCE) {
    const some = places.slice(from, from + PLACES_AT_ONCE);
    const answer = await rpc.txn({ success: questions(session, some) });
    const sessionFound = answer.responses[0]?.response_range?.count !== "0";
    if (!session.confirm(beat, answer.header, sessionFound) && session.gone) {
      return everywhere(places, { state: "gone", loss: "session" });
    }
    readAnswers(some, answer, found);
  }
  const remainingMs = session.remainingMs();
  const told = new Map<EtcdPlace, Renewal | "missing">();
  for (const place of places) {
    const state = found.get(place);
    if (state === "waiting") told.set(place, { state, remainingMs, changeInMs: Infinity });
    else told.set(place, state ? { state: "held", remainingMs } : "missing");
  }
  return told;
}

function everywhere(places: readonly EtcdPlace[], gone: Gone): ReadonlyMap<EtcdPlace, Renewal> {
  return new Map(places.map((place) => [place, gone]));
}

function questions(session: Session, places: readonly EtcdPlace[]): RequestOp[] {
  return [
    { request_range: { key: session.key, keys_only: true } },
    ...places.flatMap((place) => {
      const own = { request_range: { key: place.key, keys_only: true } };
      return place.grantedAtMs === undefined ? [own, place.line.ahead(place.ticket ?? 0n, place)] : [own];
    }),
  ];
}

function readAnswers(
  places: readonly EtcdPlace[],
  { responses }: TxnResponse,
  found: Map<EtcdPlace, boolean | "waiting">,
): void {
  let at = 1;
  for (const place of places) {
    const own = responses[at++]?.response_range;
    // What was granted stays granted, so only those who wait have asked who is ahead.
    const ahead = place.grantedAtMs === undefined ? place.line.read(responses[at++]?.response_range) : [];
    const there = own?.kvs[0]?.create_revision === String(place.ticket);
    const waits = worthWatching(ahead, place.weight, place.capacity).length > 0;
    found.set(place, there && waits ? "waiting" : there);
  }
}
