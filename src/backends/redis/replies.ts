import { goneIn, msIn, readEach, readRecord } from "../../clients/redis/replies.js";
import type { Answer, ClaimRecord, Renewal, StoredCell } from "../../core/backend.js";
import { countIn, listIn, textIn, ticketIn, unlike } from "../../engine-kit/replies.js";

// What the scripts answer, in the terms of the backend interface. Times are in µs there and in ms here. A
// client of the caller's may be set up to give numbers as text.

/**
 * A new claim that is granted at once, with all that it asked for, is answered by its ticket alone. `tells`: if it is,
 * its process is told from then on when others want it.
 */
export function readAnswer(reply: unknown, grantMs: number, tells = false): Answer {
  if (!Array.isArray(reply)) {
    const granted = { state: "granted", ticket: ticketIn(reply), remainingMs: grantMs } as const;
    return tells ? { ...granted, tells } : granted;
  }
  const [state, first, second, third] = reply as readonly unknown[];
  switch (state) {
    case "granted":
      return { state, ticket: ticketIn(first), remainingMs: msIn(second) };
    case "waiting":
      return { state, ticket: ticketIn(first), remainingMs: msIn(second), changeInMs: msIn(third) };
    case "refused":
      return { state };
    case "queue-full":
      return { state, waiters: countIn(first) };
    case "capacity-mismatch":
      return { state, capacity: countIn(first) };
    case "gone":
      return goneIn(first);
    default:
      throw unlike("a state of a claim");
  }
}

export function readRenewals(reply: unknown, claims: number): readonly Renewal[] {
  return readEach(reply, claims, readRenewal);
}

function readRenewal(reply: unknown): Renewal {
  const [state, first, second] = listIn(reply);
  switch (state) {
    case "held":
      return { state, remainingMs: msIn(first), ...(second === "wanted" ? { wanted: true } : undefined) };
    case "waiting":
      return { state, remainingMs: msIn(first), changeInMs: msIn(second) };
    case "gone":
      return goneIn(first);
    default:
      throw unlike("a state of a claim");
  }
}

/** Nothing, or the version and the text. */
export function readCell(reply: unknown): StoredCell | undefined {
  const [version, text, ...rest] = listIn(reply);
  if (version === undefined && text === undefined) return undefined;
  if (rest.length > 0) throw unlike("a cell");
  return { version: ticketIn(version), text: textIn(text) };
}

/** The new version; nothing if it was not as expected. */
export function readVersion(reply: unknown): bigint | undefined {
  return reply === null ? undefined : ticketIn(reply);
}

/** One page of a lock's claims, and where the next one begins. */
export interface Page {
  readonly capacity: number;
  readonly claims: readonly ClaimRecord[];
  readonly next: number;
}

export function readPage(name: string, reply: unknown): Page {
  const [capacity, next, ...claims] = listIn(reply);
  return {
    capacity: countIn(capacity),
    next: countIn(next),
    claims: claims.map((claim) => readRecord(name, claim, afterChannel)),
  };
}

/** The channel for notifications stands in front. */
function afterChannel(who: unknown): string {
  const text = textIn(who);
  return text.slice(text.indexOf(" ") + 1);
}
