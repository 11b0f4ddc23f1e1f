import { goneIn, msIn, readEach, readRecord } from "../../clients/redis/replies.js";
import type { ClaimRecord, Gone } from "../../core/backend.js";
import { countIn, listIn, numberIn, textIn, ticketIn, unlike } from "../../engine-kit/replies.js";

// What the scripts of one node answer. A client of the caller's may be set up to give numbers as text.

export type Vote =
  | {
      readonly state: "granted";
      readonly ticket: number;
      readonly atUs: number;
      readonly remainingMs: number;
      /** The server had to be greeted first, so what was sent after this claim may have come there before it. */
      readonly sentLate?: boolean;
    }
  | {
      readonly state: "refused";
      readonly by: string;
      readonly ageMs: number;
      readonly changeInMs: number;
    }
  /** It may have forgotten claims that others rely on, and does not vote before they have ended. */
  | { readonly state: "young"; readonly votesInMs: number }
  | { readonly state: "max-ttl"; readonly agreedMs: number }
  | Gone;

/** Which server a node is, and what it remembers; `unused` if it has never been asked for a vote. */
export interface Greeting {
  readonly runId: string;
  readonly born: string;
  readonly unused: boolean;
}

export type Extension = { readonly state: "held"; readonly remainingMs: number } | Gone;

/** A claim that was granted with all that it asked for is answered by its ticket and the time alone. */
export function readVote(reply: unknown, grantMs: number): Vote {
  const [state, first, second, third] = listIn(reply);
  switch (state) {
    case "granted":
      return { state, ticket: numberOfTicket(first), atUs: numberIn(second), remainingMs: msIn(third) };
    case "refused":
      return { state, by: textIn(first), ageMs: msIn(second), changeInMs: msIn(third) };
    case "young":
      return { state, votesInMs: msIn(first) };
    case "max-ttl":
      return { state, agreedMs: countIn(first) };
    case "gone":
      return goneIn(first);
    default:
      return {
        state: "granted",
        ticket: numberOfTicket(state),
        atUs: numberIn(first),
        remainingMs: grantMs,
      };
  }
}

export function readGreeting(reply: unknown): Greeting {
  const [runId, born] = listIn(reply).map(textIn);
  if (runId === undefined || born === undefined) throw unlike("a greeting");
  return { runId, born, unused: born.startsWith("new ") };
}

export function readExtensions(reply: unknown, claims: number): readonly Extension[] {
  return readEach(reply, claims, readExtension);
}

function readExtension(reply: unknown): Extension {
  const [state, value] = listIn(reply);
  if (state === "held") return { state, remainingMs: msIn(value) };
  if (state === "gone") return goneIn(value);
  throw unlike("a state of a claim");
}

/** The claim was not there; it was; or it was, and another process had asked for the lock. */
export function readReleased(reply: unknown): 0 | 1 | 2 {
  const released = countIn(reply);
  if (released !== 0 && released !== 1 && released !== 2) throw unlike("0, 1 or 2");
  return released;
}

export function readClaims(name: string, reply: unknown): readonly ClaimRecord[] {
  return listIn(reply).map((one) => readRecord(name, one));
}

/** It is below 2 ** 53 for as long as clocks count in µs. */
function numberOfTicket(value: unknown): number {
  return Number(ticketIn(value));
}
