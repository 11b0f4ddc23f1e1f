import type { Answer, ClaimRecord, Gone, Renewal } from "../../core/backend.js";
import type { Owner } from "../../core/claim.js";
import { parseForce } from "./bell.js";

// What the scripts answer, in the terms of the backend interface. Times are in µs there and in ms here. A
// client of the caller's may be set up to give numbers as text.

type ClaimReply =
  | number
  | ["granted", number, number]
  | ["waiting", number, number, number]
  | ["refused"]
  | ["queue-full", number]
  | ["capacity-mismatch", number]
  | ["gone", string];
type RenewReply = ["held", number] | ["waiting", number, number] | ["gone", string];
type ListReply = [
  capacity: number,
  next: number,
  ...claims: [string, number, number, string, number, number][],
];

/** A claim that was granted with all that it asked for is answered by its ticket alone. */
export function readAnswer(given: unknown, grantMs: number): Answer {
  const reply = given as ClaimReply;
  if (!Array.isArray(reply)) return { state: "granted", ticket: BigInt(reply), remainingMs: grantMs };
  switch (reply[0]) {
    case "granted":
      return { state: "granted", ticket: BigInt(reply[1]), remainingMs: reply[2] / 1000 };
    case "waiting":
      return {
        state: "waiting",
        ticket: BigInt(reply[1]),
        remainingMs: reply[2] / 1000,
        changeInMs: reply[3] / 1000,
      };
    case "refused":
      return { state: "refused" };
    case "queue-full":
      return { state: "queue-full", waiters: Number(reply[1]) };
    case "capacity-mismatch":
      return { state: "capacity-mismatch", capacity: Number(reply[1]) };
    case "gone":
      return toGone(reply[1]);
    default:
      throw new TypeError("not an answer to a claim");
  }
}

export function readRenewals(reply: unknown): readonly Renewal[] {
  return (reply as RenewReply[]).map(toRenewal);
}

function toRenewal(reply: RenewReply): Renewal {
  switch (reply[0]) {
    case "held":
      return { state: "held", remainingMs: reply[1] / 1000 };
    case "waiting":
      return { state: "waiting", remainingMs: reply[1] / 1000, changeInMs: reply[2] / 1000 };
    case "gone":
      return toGone(reply[1]);
    default:
      throw new TypeError("not an answer to a renewal");
  }
}

/** One page of a lock's claims, and where the next one begins. */
export interface Page {
  readonly capacity: number;
  readonly claims: readonly ClaimRecord[];
  readonly next: number;
}

export function readPage(name: string, reply: unknown): Page {
  const [capacity, next, ...claims] = reply as ListReply;
  return {
    capacity: Number(capacity),
    next: Number(next),
    claims: claims.map(([id, ticket, weight, who, ageUs, remainingUs]) => {
      const [owner, note] = JSON.parse(who.slice(who.indexOf(" ") + 1)) as [Owner, string];
      const [ageMs, remainingMs] = [ageUs / 1000, remainingUs / 1000];
      return { name, id, ticket: BigInt(ticket), weight: Number(weight), owner, note, ageMs, remainingMs };
    }),
  };
}

function toGone(forced: string): Gone {
  return forced === ""
    ? { state: "gone", loss: "taken" }
    : { state: "gone", loss: "forced", ...parseForce(forced) };
}
