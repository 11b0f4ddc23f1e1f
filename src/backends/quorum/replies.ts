import type { ClaimRecord, Gone } from "../../core/backend.js";
import type { Owner } from "../../core/claim.js";
import { backendError } from "../../core/errors.js";
import { parseForce } from "../redis/bell.js";

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

/** Who a node is, and what it remembers; `unused` if it has never been asked for a vote. */
export interface Greeting {
  readonly runId: string;
  readonly born: string;
  readonly unused: boolean;
}

export type Extension = { readonly state: "held"; readonly remainingMs: number } | Gone;

/** A claim that was granted with all that it asked for is answered by its ticket and the time alone. */
export function readVote(reply: unknown, grantMs: number, where: string): Vote {
  const [state, first, second, third] = listOf(reply, where);
  if (Number(state) > 0)
    return { state: "granted", ticket: Number(state), atUs: Number(first), remainingMs: grantMs };
  switch (state) {
    case "granted":
      return { state, ticket: Number(first), atUs: Number(second), remainingMs: Number(third) / 1000 };
    case "refused":
      return {
        state,
        by: String(first),
        ageMs: Number(second) / 1000,
        changeInMs: Number(third) / 1000,
      };
    case "young":
      return { state, votesInMs: Number(first) / 1000 };
    case "max-ttl":
      return { state, agreedMs: Number(first) };
    case "gone":
      return toGone(String(first));
    default:
      throw notOurs(where);
  }
}

export function readGreeting(reply: unknown, where: string): Greeting {
  const [runId, born] = listOf(reply, where).map(String);
  if (runId === undefined || born === undefined) throw notOurs(where);
  return { runId, born, unused: born.startsWith("new ") };
}

export function readExtensions(reply: unknown, where: string): readonly Extension[] {
  return listOf(reply, where).map((one) => {
    const [state, value] = listOf(one, where);
    if (state === "held") return { state, remainingMs: Number(value) / 1000 };
    if (state === "gone") return toGone(String(value));
    throw notOurs(where);
  });
}

export function readClaims(name: string, reply: unknown, where: string): readonly ClaimRecord[] {
  return listOf(reply, where).map((one) => {
    const [id, ticket, weight, who, ageUs, remainingUs] = listOf(one, where);
    const [owner, note] = JSON.parse(String(who)) as [Owner, string];
    const [ageMs, remainingMs] = [Number(ageUs) / 1000, Number(remainingUs) / 1000];
    const shape = { ticket: BigInt(Number(ticket)), weight: Number(weight) };
    return { name, id: String(id), ...shape, owner, note, ageMs, remainingMs };
  });
}

function listOf(reply: unknown, where: string): readonly unknown[] {
  if (!Array.isArray(reply)) throw notOurs(where);
  return reply;
}

function toGone(forced: string): Gone {
  return forced === ""
    ? { state: "gone", loss: "taken" }
    : { state: "gone", loss: "forced", ...parseForce(forced) };
}

function notOurs(where: string): Error {
  return backendError(`the answer of ${where} is not one of our scripts'. Is this a Redis server?`, {
    retryable: false,
  });
}
