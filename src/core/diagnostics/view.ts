import type { ClaimRecord, ResourceRecord } from "../backend.js";
import { admit, type ClaimView, type Owner, type ResourceView, tokenOf, WHOLE } from "../claim.js";
import { FreshFlight } from "../concurrency.js";
import type { Connection } from "../connection.js";
import { formatMs } from "../duration.js";
import type { LocalName } from "../local-names.js";
import { plainText, quotedText, writable } from "../plain-text.js";

/** Of its own claims a process knows more than what the engine shows: which task holds, and how many wait. */
export function viewOf(connection: Connection, record: ResourceRecord): ResourceView {
  const { name, capacity, claims } = record;
  const granted = admit(claims, capacity);
  const views = asKnown(connection, record).map((claim) => claimView(claim, capacity));
  const sides = { holders: views.slice(0, granted), waiters: views.slice(granted) };
  return capacity === WHOLE ? { name, ...sides } : { name, permits: capacity, ...sides };
}

interface KnownRecord extends ClaimRecord {
  readonly isIdle?: boolean;
}

/** The claims of a name, with what this process knows of its own. */
export function asKnown(
  { localNames }: Connection,
  { name, claims }: ResourceRecord,
): readonly KnownRecord[] {
  const here = localNames.find(name);
  return here === undefined ? claims : claims.map((claim) => asKnownHere(here, claim));
}

function asKnownHere(here: LocalName, claim: ClaimRecord): KnownRecord {
  for (const queue of here.queues) {
    const known = queue.knownOf(claim.ticket);
    if (known === undefined) continue;
    const { note = claim.note, isIdle = false, ...numbers } = known;
    return { ...claim, note, owner: { ...claim.owner, ...numbers }, isIdle };
  }
  return claim;
}

function claimView(claim: KnownRecord, capacity: number): ClaimView {
  const { tasks, number, sticky, ...owner } = claim.owner;
  return writable({
    token: tokenOf(claim.ticket, number),
    mode: claim.weight === WHOLE ? "exclusive" : "shared",
    ...(capacity === WHOLE ? undefined : { permits: claim.weight }),
    ...(tasks === undefined || tasks === 1 ? undefined : { tasks }),
    ...(sticky ? { sticky: claim.isIdle ? ("idle" as const) : sticky } : undefined),
    note: claim.note,
    owner,
    ageMs: Math.max(0, Math.round(claim.ageMs)),
    remainingMs: Math.max(0, Math.round(claim.remainingMs)),
  });
}

/** `billing on web-3, process 4711` */
export function describeOwner({ service, host, pid }: Owner): string {
  return plainText(`${service === undefined ? host : `${service} on ${host}`}, process ${pid}`);
}

/** `billing on web-3, process 4711, for 12.4 s (token 17…, note "nightly run", 8 s left unless renewed)` */
export function describeHolder(claim: ClaimView): string {
  const note = claim.note === "" ? "" : `, note ${quotedText(claim.note)}`;
  return `${describeOwner(claim.owner)}, for ${formatMs(claim.ageMs)} (token ${claim.token}${note}, ${formatMs(claim.remainingMs)} left unless renewed)`;
}

/** Many waiters may give up at once, in a long queue: no person reads all of it. */
export const MOST_LOOKED_AT = 100;

/** The queue of one name now, or `undefined` if it has no claims. */
export async function lookAt(
  connection: Connection,
  name: string,
  limit?: number,
): Promise<ResourceRecord | undefined> {
  const query = limit === undefined ? { name } : { name, limit };
  for await (const record of connection.backend.list(query)) return record;
  return undefined;
}

type Look = ReturnType<typeof lookAt>;

const underWay = new WeakMap<Connection, Map<string, FreshFlight<Awaited<Look>>>>();

/**
 * The beginning of the queue, for waiters that tell why they give up: many do so at the same moment, of the same names.
 * A look that is under way may be older than what its caller was told, so the caller gets the next one.
 */
export function lookTogether(connection: Connection, name: string): Look {
  const looks = underWay.get(connection) ?? new Map<string, FreshFlight<Awaited<Look>>>();
  underWay.set(connection, looks);
  const flight = looks.get(name) ?? new FreshFlight();
  looks.set(name, flight);
  return flight
    .run(() => lookAt(connection, name, MOST_LOOKED_AT))
    .finally(() => {
      if (flight.isIdle) looks.delete(name);
    });
}
