import type { Gone, Renewal } from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import type { RequestOp, ResponseOp } from "./messages.js";
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
    const looks = places.slice(from, from + PLACES_AT_ONCE).map(lookAt);
    const own = { request_range: { key: session.key, keys_only: true } };
    const answer = await rpc.txn({ success: [own, ...looks.flatMap(({ questions }) => questions)] });
    const sessionFound = answer.responses[0]?.response_range?.count !== "0";
    if (!session.confirm(beat, answer.header, sessionFound) && session.gone) {
      return everywhere(places, { state: "gone", loss: "session" });
    }
    let at = 1;
    for (const { place, questions } of looks) {
      found.set(place, stateOf(place, answer.responses.slice(at, at + questions.length)));
      at += questions.length;
    }
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

interface Look {
  readonly place: EtcdPlace;
  readonly questions: readonly RequestOp[];
}

/** Is it there, and who is ahead? What was granted stays granted, so it asks only the first. */
function lookAt(place: EtcdPlace): Look {
  const own = { request_range: { key: place.key, keys_only: true } };
  const waits = place.grantedAtMs === undefined;
  return { place, questions: waits ? [own, place.line.ahead(place.ticket ?? 0n, place)] : [own] };
}

function stateOf(place: EtcdPlace, [own, before]: readonly ResponseOp[]): boolean | "waiting" {
  if (own?.response_range?.kvs[0]?.create_revision !== String(place.ticket)) return false;
  const ahead = before === undefined ? [] : place.line.read(before.response_range);
  return worthWatching(ahead, place.weight, place.capacity).length === 0 ? true : "waiting";
}
