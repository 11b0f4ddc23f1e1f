import type { Answer, ClaimRequest, Ending, Gone, Renewal, RenewRequest } from "../../core/backend.js";
import type { Owner } from "../../core/claim.js";
import { inOrder, listOf, us } from "../sql/renewals.js";
import { numberOf, readAnswer, readRenewal } from "../sql/replies.js";
import * as routines from "../sql/routines.js";
import { wallUs } from "./clock.js";
import { otherBoot } from "./errors.js";
import type { LineRow, Statements } from "./statements.js";

/** The moment of an atomic step. */
export interface Moment {
  readonly nowUs: number;
  readonly boot: string;
}

/** What a step has to say, and whether it removed claims, so that others may be let in now. */
export interface Outcome<T> {
  readonly answer: T;
  readonly removed: boolean;
}

/** SQLite keeps every text as it is. */
const asIs = (text: string) => text;

function timesOf(db: Statements, { nowUs, boot }: Moment): { nowUs: number; wallUs: number } {
  if (db.boot.get()?.boot !== boot) throw otherBoot();
  return { nowUs, wallUs: wallUs() };
}

export function claim(db: Statements, request: ClaimRequest, at: Moment): Outcome<Answer> {
  const { name, id, weight, capacity, note, maxWaiters } = request;
  const inputs = {
    name,
    id,
    asked: Number(request.ticket ?? 0),
    weight,
    capacity,
    ttl_us: us(request.ttlMs),
    fixed: request.fixed ? 1 : 0,
    min_hold_us: us(request.minHoldMs),
    queue: request.queue ? 1 : 0,
    capped: maxWaiters === undefined ? 0 : 1,
    max_waiters: maxWaiters ?? 0,
    owner: ownerText(request.owner),
    note,
  };
  const row = db.routines.run(routines.claim, inputs, timesOf(db, at));
  return { answer: readAnswer(row, asIs), removed: Number(row.removed ?? 0) > 0 };
}

/** Who is the first to wait at each name, and what is about to change there by itself. */
export function linesOf(db: Statements, names: readonly string[], nowUs: number): Map<string, LineRow> {
  const rows = db.lines.all({ names: JSON.stringify(names), nowUs });
  return new Map(rows.map((row) => [row.name, row]));
}

/** Answers in the order of the requests. */
export function renew(db: Statements, requests: readonly RenewRequest[], at: Moment): readonly Renewal[] {
  const times = timesOf(db, at);
  const sorted = inOrder(requests.map((request, index) => ({ request, index })));
  const answers: Renewal[] = [];
  let line = {};
  for (const [position, listed] of listOf(sorted.map(({ request }) => request)).entries()) {
    const inputs = { ...line, ...listed, ticket: Number(listed.ticket) };
    const row = db.routines.run(routines.renew, inputs, times);
    // What was found for the first of a name holds for those that follow.
    line = { first_waiting: row.first_waiting, soonest_us: row.soonest_us };
    answers[sorted[position]?.index ?? 0] = readRenewal(row, asIs);
  }
  return answers;
}

/** Out of the queue, unless its `minHold` is not over: then it stays until that, and counts as a holder. */
export function leave(
  db: Statements,
  { name, id }: { readonly name: string; readonly id: string },
  ending: Ending | undefined,
  at: Moment,
): Outcome<{ readonly found: boolean; readonly forced?: number }> {
  const force = typeof ending === "object" ? ending : undefined;
  const kind = ending === undefined ? 0 : force === undefined ? 1 : 2;
  const inputs = {
    name,
    id,
    ordinary: kind === 0 ? 1 : 0,
    ending: kind,
    reason: force?.reason ?? null,
    by_whom: force?.by ?? null,
  };
  const row = db.routines.run(routines.leave, inputs, timesOf(db, at));
  const found = numberOf(row, "was_there") === 1;
  const forced = found && force !== undefined ? { forced: numberOf(row, "ticket") } : undefined;
  // Also one that stays until its minHold is over is news for whoever is next.
  return { answer: { found, ...forced }, removed: found };
}

export function forcedNews(reason: string, by: string | null | undefined): Gone {
  return { state: "gone", loss: "forced", reason, ...(by == null ? undefined : { by }) };
}

const ownerTexts = new WeakMap<Owner, string>();

/** A connection has one owner for all its claims: it is put into words once. */
function ownerText(owner: Owner): string {
  const known = ownerTexts.get(owner);
  if (known !== undefined) return known;
  const text = JSON.stringify(owner);
  ownerTexts.set(owner, text);
  return text;
}
