import type { Force, ResourceRecord } from "../core/backend.js";
import { admit, type Claim, type ClaimView, ticketOf } from "../core/claim.js";
import type { Connection } from "../core/connection.js";
import { MOST_LOOKED_AT, viewOf } from "../core/diagnostics/view.js";
import { invalidOption } from "../core/errors.js";
import type { LockKind } from "../core/events.js";
import type { HeldClaim } from "../core/held-claim.js";
import { knownOptions } from "../core/options.js";

/** Which holders lose the lock, and why. */
export interface ForceReleaseOptions {
  /** Only this holder; without it, all of them. */
  readonly token?: bigint;
  /** What the victim and the logs are told. */
  readonly reason: string;
  /** Which operator it is: the victim and the logs are told that, too. */
  readonly by?: string | undefined;
}

const KNOWN = new Set<string>(["token", "reason", "by"] satisfies (keyof ForceReleaseOptions)[]);
const LONGEST_TEXT = 500;

/** Holders only: a waiter has nothing that could be taken away. */
export async function forceRelease(
  connection: Connection,
  name: string,
  options: ForceReleaseOptions,
): Promise<readonly ClaimView[]> {
  const force = readForce(options);
  connection.assertOpen(name);
  const victims: ClaimView[] = [];
  for await (const record of holdersOf(connection, name)) {
    const { holders } = viewOf(connection, record);
    for (const [index, claim] of record.claims.slice(0, admit(record.claims, record.capacity)).entries()) {
      const holder = holders[index];
      if (holder === undefined || !isMeant(holder, options.token)) continue;
      if (!(await connection.backend.release(claim, force))) continue;
      victims.push(holder);
      const about = connection.about({ name, kind: kindOf(holder) });
      connection.events.emit({ type: "forced", ...about, token: String(holder.token), ...force });
    }
  }
  return victims;
}

/**
 * One claim may serve several tasks: their tokens differ by the hand-off number. The task that holds now may be a later
 * one than was last shown; the task of a token before that holds no more.
 */
function isMeant({ token }: ClaimView, meant: bigint | undefined): boolean {
  return meant === undefined || (ticketOf(meant) === ticketOf(token) && meant >= token);
}

/** As far as the engine knows it: an exclusive claim is one of a mutex, whatever its holder uses that for. */
function kindOf({ mode, permits }: ClaimView): LockKind {
  if (permits !== undefined) return "semaphore";
  return mode === "exclusive" ? "mutex" : "read";
}

/** All claims before that ticket: holders lose their lock, and waiters go to the end of the queue. */
export async function forceAhead(
  connection: Connection,
  name: string,
  ticket: bigint,
  force: Force,
): Promise<void> {
  const takeAway = (claims: readonly Claim[]) =>
    Promise.all(claims.map((claim) => connection.backend.release(claim, force)));
  for await (const { claims, capacity } of connection.backend.list({ name })) {
    const ahead = claims.filter((claim) => claim.ticket < ticket);
    const holders = admit(claims, capacity);
    // The waiters first: otherwise one of them would be let in, only to be thrown out again.
    await takeAway(ahead.slice(holders));
    await takeAway(ahead.slice(0, holders));
  }
}

const MOST_ROUNDS = 100;

/**
 * All claims that wait behind one that holds everything, until there is none. Should that one have lost it meanwhile,
 * those behind it have been let in, and are left alone.
 */
export async function forceBehind(heldClaim: HeldClaim, force: Force): Promise<void> {
  const { connection, name, ticket } = heldClaim;
  for (let round = 0; round < MOST_ROUNDS; round++) {
    let behind = 0;
    for await (const { claims } of connection.backend.list({ name })) {
      const waiting = claims.filter((claim) => claim.ticket > ticket);
      behind = waiting.length;
      if (!heldClaim.live) return;
      await Promise.all(waiting.map((claim) => connection.backend.release(claim, force)));
    }
    if (behind === 0) return;
  }
}

/** Of a long queue only its beginning, unless all of that holds. */
async function* holdersOf(connection: Connection, name: string): AsyncIterable<ResourceRecord> {
  for await (const record of connection.backend.list({ name, limit: MOST_LOOKED_AT })) {
    const all =
      record.claims.length === MOST_LOOKED_AT && admit(record.claims, record.capacity) === MOST_LOOKED_AT;
    if (all) yield* connection.backend.list({ name });
    else yield record;
  }
}

function readForce(options: ForceReleaseOptions): { reason: string; by?: string } {
  knownOptions(options, KNOWN, "forceRelease");
  const { reason, by, token } = options;
  if (typeof reason !== "string" || reason === "" || reason.length > LONGEST_TEXT) {
    throw invalidOption(`reason: say in at most ${LONGEST_TEXT} characters why; the victim is told.`);
  }
  if (by !== undefined && (typeof by !== "string" || by.length > LONGEST_TEXT)) {
    throw invalidOption(`by: must be a string of at most ${LONGEST_TEXT} characters.`);
  }
  if (token !== undefined && typeof token !== "bigint")
    throw invalidOption("token: must be the bigint of a lease. Of a token that is text, give BigInt(text).");
  return by === undefined ? { reason } : { reason, by };
}
