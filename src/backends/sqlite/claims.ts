import type { Answer, ClaimRequest, Ending, Gone, Renewal, RenewRequest } from "../../core/backend.js";
import type { Owner } from "../../core/claim.js";
import { wallUs } from "./clock.js";
import { otherBoot } from "./errors.js";
import type { AskRow, LineRow, Statements } from "./statements.js";

/** How long a claim that was forced away can still learn why. */
const FORCED_KEPT_US = 60_000_000;

type Known = Extract<AskRow, { ticket: number }>;

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

export function claim(db: Statements, request: ClaimRequest, at: Moment): Outcome<Answer> {
  const { row, removed } = ask(db, request.name, request.id, at);
  if (row.ticket === null) {
    const answer = request.ticket === undefined ? enter(db, request, row, at) : gone(db, request.id, at);
    return { answer, removed };
  }
  const stranger = request.ticket !== undefined && request.ticket !== BigInt(row.ticket);
  if (stranger || row.has_left) return { answer: gone(db, request.id, at), removed };
  return { answer: refresh(db, request, row, at), removed };
}

/** Forgets what has expired at a name, and looks at it. */
function ask(db: Statements, name: string, id: string, at: Moment): { row: AskRow; removed: boolean } {
  const row = db.ask.get({ name, id });
  if (row.boot !== at.boot) throw otherBoot();
  if (row.soonest_us === null || row.soonest_us > at.nowUs) return { row, removed: false };
  db.dropExpired.run({ name, nowUs: at.nowUs });
  return { row: db.ask.get({ name, id }), removed: true };
}

function enter(db: Statements, request: ClaimRequest, row: AskRow, { nowUs }: Moment): Answer {
  const { name, id, weight, capacity, fixed, note } = request;
  if (row.live_capacity !== null && row.live_capacity !== capacity) {
    return { state: "capacity-mismatch", capacity: row.live_capacity };
  }
  // The rule: everybody else is ahead of a new claim.
  const granted = row.load + weight <= capacity;
  if (!granted && !request.queue) return { state: "refused" };
  if (!granted && request.maxWaiters !== undefined) {
    const waiters = countWaiters(db, name, nowUs);
    if (waiters >= request.maxWaiters) return { state: "queue-full", waiters };
  }
  const minHoldUs = us(request.minHoldMs);
  const deadlineUs = nowUs + (granted ? Math.max(us(request.ttlMs), minHoldUs) : us(request.ttlMs));
  const { last_ticket: ticket } = db.draw.get({ name, wallUs: wallUs() });
  db.enter.run({
    name,
    ticket,
    id,
    weight,
    capacity,
    fixed: fixed ? 1 : 0,
    minHoldUs,
    nowUs,
    grantedUs: granted ? nowUs : null,
    deadlineUs,
    owner: ownerText(request.owner),
    note,
  });
  const soonestUs = Math.min(deadlineUs, row.soonest_us ?? Infinity);
  return told(ticket, granted, deadlineUs, soonestUs, nowUs);
}

function refresh(db: Statements, request: ClaimRequest, mine: Known, { nowUs }: Moment): Answer {
  const { name } = request;
  const { ticket } = mine;
  const ttlUs = us(request.ttlMs);
  const granted = mine.load + mine.weight <= mine.capacity;
  let deadlineUs = mine.deadline_us;
  // A fixed time counts once, from the grant; so does the time for which nobody else may come in.
  if (!granted) deadlineUs = Math.max(deadlineUs, nowUs + ttlUs);
  else if (mine.granted_us === null) {
    deadlineUs = Math.max(deadlineUs, nowUs + Math.max(ttlUs, mine.min_hold_us));
  } else if (!mine.fixed) deadlineUs = Math.max(deadlineUs, nowUs + ttlUs);
  const grantedUs = mine.granted_us ?? (granted ? nowUs : null);
  const owner = ownerText(request.owner);
  db.refresh.run({ name, ticket, nowUs, grantedUs, deadlineUs, owner, note: request.note });
  const soonestUs = granted ? deadlineUs : (db.soonest.get({ name, nowUs }).soonest_us ?? deadlineUs);
  return told(ticket, granted, deadlineUs, soonestUs, nowUs);
}

function told(
  ticket: number,
  granted: boolean,
  deadlineUs: number,
  soonestUs: number,
  nowUs: number,
): Answer {
  const remainingMs = (deadlineUs - nowUs) / 1000;
  if (granted) return { state: "granted", ticket: BigInt(ticket), remainingMs };
  return { state: "waiting", ticket: BigInt(ticket), remainingMs, changeInMs: (soonestUs - nowUs) / 1000 };
}

function countWaiters(db: Statements, name: string, nowUs: number): number {
  const first = linesOf(db, [name], nowUs).get(name)?.first_waiting ?? null;
  return first === null ? 0 : db.waiters.get({ name, ticket: first, nowUs }).number;
}

/** Who is the first to wait at each name, and what is about to change there by itself. */
export function linesOf(db: Statements, names: readonly string[], nowUs: number): Map<string, LineRow> {
  const rows = db.line.all({ names: JSON.stringify(names), nowUs });
  return new Map(rows.map((row) => [row.name, row]));
}

/** Answers in the order of the requests; `removed` holds the names where claims had expired. */
export function renew(
  db: Statements,
  requests: readonly RenewRequest[],
  { nowUs, boot }: Moment,
): { answers: Renewal[]; removed: Set<string> } {
  if (db.boot.get()?.boot !== boot) throw otherBoot();
  const names = [...new Set(requests.map(({ name }) => name))];
  const removed = new Set(names.filter((name) => db.dropExpired.run({ name, nowUs }).changes > 0));
  const lines = linesOf(db, names, nowUs);
  const answers = requests.map(({ name, id, ticket: asked, ttlMs }): Renewal => {
    const ticket = Number(asked);
    const kept = db.renew.get({ name, id, ticket, nowUs, untilUs: nowUs + us(ttlMs) });
    if (kept === undefined) return gone(db, id, { nowUs });
    const remainingMs = (kept.deadline_us - nowUs) / 1000;
    const limit = lines.get(name)?.first_waiting ?? null;
    if (limit === null || ticket < limit) return { state: "held", remainingMs };
    const soonestUs = db.soonest.get({ name, nowUs }).soonest_us ?? kept.deadline_us;
    return { state: "waiting", remainingMs, changeInMs: (soonestUs - nowUs) / 1000 };
  });
  return { answers, removed };
}

/** Out of the queue, unless its `minHold` is not over: then it stays until that, and counts as a holder. */
export function leave(
  db: Statements,
  { name, id }: { readonly name: string; readonly id: string },
  ending: Ending | undefined,
  at: Moment,
): Outcome<{ readonly found: boolean; readonly forced?: number }> {
  const { nowUs } = at;
  if (ending === undefined && db.release.run({ name, id, nowUs }).changes > 0) {
    return { answer: { found: true }, removed: true };
  }
  const { row, removed } = ask(db, name, id, at);
  if (row.ticket === null || (row.has_left && ending === undefined))
    return { answer: { found: false }, removed };
  const { ticket } = row;
  if (ending === undefined) {
    db.leave.run({ name, ticket });
    // It stays until its minHold is over, which whoever is next had better know.
    return { answer: { found: true }, removed: true };
  }
  db.remove.run({ name, ticket });
  if (ending === "unused") return { answer: { found: true }, removed: true };
  db.forgetForced.run({ nowUs });
  db.force.run({
    id,
    name,
    ticket,
    reason: ending.reason,
    by: ending.by ?? null,
    untilUs: nowUs + FORCED_KEPT_US,
  });
  return { answer: { found: true, forced: ticket }, removed: true };
}

function gone(db: Statements, id: string, { nowUs }: Pick<Moment, "nowUs">): Gone {
  const forced = db.forced.get({ id, nowUs });
  return forced === undefined ? { state: "gone", loss: "taken" } : forcedNews(forced.reason, forced.by_whom);
}

export function forcedNews(reason: string, by: string | null | undefined): Gone {
  return { state: "gone", loss: "forced", reason, ...(by == null ? undefined : { by }) };
}

function us(ms: number): number {
  return Math.round(ms * 1000);
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
