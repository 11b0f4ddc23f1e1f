import type { Answer, ClaimRecord, Force, Gone, Renewal, Waiting } from "../../core/backend.js";
import { backendError } from "../../core/errors.js";
import {
  bitIn,
  countIn,
  forceIn,
  listIn,
  numberIn,
  parsed,
  readMetadata,
  textIn,
  ticketIn,
  unlike,
} from "../../engine-kit/replies.js";

/** A row of an answer, by column. Numbers may come as texts. */
export type Row = Readonly<Record<string, unknown>>;

/** Texts of users are kept as JSON, since databases do not take every character. */
export function encodeText(text: string): string {
  return JSON.stringify(text);
}

/** `undefined`: Locktender has not written it. */
export function decodeText(json: unknown): string | undefined {
  const text = parsed(json);
  return typeof text === "string" ? text : undefined;
}

/** Times are microseconds in the database. */
export function toUs(ms: number): number {
  return Math.round(ms * 1000);
}

export function readAnswer(row: Row | undefined): Answer {
  const verdict = row?.verdict;
  switch (verdict) {
    case "granted":
      return { state: verdict, ticket: ticketOf(row, "ticket"), remainingMs: msOf(row, "remaining_us") };
    case "waiting":
      return { ...waitingOf(row), ticket: ticketOf(row, "ticket") };
    case "refused":
      return { state: verdict };
    case "queue-full":
      return { state: verdict, waiters: countOf(row, "waiters") };
    case "capacity-mismatch":
      return { state: verdict, capacity: countOf(row, "live_capacity") };
    case "gone":
      return goneOf(row);
    default:
      throw notOurs();
  }
}

export function readRenewal(row: Row | undefined): Renewal {
  const verdict = row?.verdict;
  if (verdict === "held") {
    const wanted = bitOf(row, "wanted") ? ({ wanted: true } as const) : undefined;
    return { state: verdict, remainingMs: msOf(row, "remaining_us"), ...wanted };
  }
  if (verdict === "waiting") return waitingOf(row);
  if (verdict === "gone") return goneOf(row);
  throw notOurs();
}

function waitingOf(row: Row | undefined): Waiting {
  return { state: "waiting", remainingMs: msOf(row, "remaining_us"), changeInMs: msOf(row, "change_us") };
}

export function readRecord(name: string, row: Row): ClaimRecord & { readonly capacity: number } {
  const stored = parsed(row.owner);
  // Releases before wrote the owner alone there, and the note into a column of its own.
  const isWhole = typeof stored === "object" && stored !== null && "owner" in stored;
  const metadata = isWhole ? stored : { owner: stored, note: decodeText(row.note) };
  const { owner, note, resize } = readMetadata(metadata);
  return {
    name,
    id: textOf(row, "id"),
    ticket: ticketOf(row, "ticket"),
    weight: countOf(row, "weight"),
    capacity: countOf(row, "capacity"),
    owner,
    note,
    resize,
    ageMs: msOf(row, "age_us"),
    remainingMs: msOf(row, "remaining_us"),
  };
}

/** Why a claim is gone; without a stored reason, its loss has no known cause. */
export function goneOf(row: Row | undefined): Gone {
  if (typeof row?.reason !== "string") return { state: "gone", loss: "taken" };
  return { state: "gone", loss: "forced", ...forceOf(row.reason, row.by_whom) };
}

/** The values of the columns `reason` and `by_whom`. The second is an object if there is more to say than by whom. */
export function forceValues(force: Force | undefined): readonly [string | null, string | null] {
  if (force === undefined) return [null, null];
  const { reason, by, resize } = force;
  if (resize !== undefined) return [encodeText(reason), JSON.stringify({ by, resize })];
  return [encodeText(reason), by === undefined ? null : encodeText(by)];
}

/** What was said when the claim was taken away, as far as it can be read: that it was is certain. */
export function forceOf(reason: unknown, byWhom: unknown): Partial<Force> {
  const by = parsed(byWhom);
  return forceIn({ ...(typeof by === "object" ? by : { by }), reason: decodeText(reason) });
}

export function textOf(row: Row | undefined, column: string): string {
  return readBy(textIn, row?.[column]);
}

export function countOf(row: Row | undefined, column: string): number {
  return readBy(countIn, row?.[column]);
}

export function bitOf(row: Row | undefined, column: string): boolean {
  return readBy(bitIn, row?.[column]);
}

/** A ticket, or the version of a cell. */
export function ticketOf(row: Row | undefined, column: string): bigint {
  return readBy(ticketIn, row?.[column]);
}

/** The names in a list that is one text. */
export function namesOf(row: Row | undefined, column: string): readonly string[] {
  return readBy((json) => listIn(parsed(json)).map(textIn), row?.[column]);
}

function msOf(row: Row | undefined, column: string): number {
  return readBy(numberIn, row?.[column]) / 1000;
}

/** What is none of our routines' is an error, and never an answer. */
export function readBy<T>(read: (value: unknown) => T, value: unknown): T {
  try {
    return read(value);
  } catch (cause) {
    throw notOurs(cause);
  }
}

function notOurs(cause: unknown = unlike("a verdict")): Error {
  return backendError("the answer is not one of our routines'. Were they changed?", {
    retryable: false,
    cause,
  });
}
