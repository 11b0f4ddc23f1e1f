import type { Answer, ClaimRecord, Gone, Renewal } from "../../core/backend.js";
import type { Owner } from "../../core/claim.js";
import { backendError } from "../../core/errors.js";
import type { Row } from "./link.js";

/** Texts of users are kept as JSON, since databases do not take every character. */
export function encodeText(text: string): string {
  return JSON.stringify(text);
}

export function decodeText(text: string): string {
  return JSON.parse(text) as string;
}

export function readAnswer(row: Row | undefined): Answer {
  const verdict = row?.verdict;
  switch (verdict) {
    case "granted":
      return { state: verdict, ticket: bigintOf(row, "ticket"), remainingMs: msOf(row, "remaining_us") };
    case "waiting":
      return {
        state: verdict,
        ticket: bigintOf(row, "ticket"),
        remainingMs: msOf(row, "remaining_us"),
        changeInMs: msOf(row, "change_us"),
      };
    case "refused":
      return { state: verdict };
    case "queue-full":
      return { state: verdict, waiters: numberOf(row, "waiters") };
    case "capacity-mismatch":
      return { state: verdict, capacity: numberOf(row, "live_capacity") };
    case "gone":
      return goneOf(row);
    default:
      throw strange();
  }
}

export function readRenewal(row: Row | undefined): Renewal {
  const verdict = row?.verdict;
  const remainingMs = () => msOf(row, "remaining_us");
  if (verdict === "held") return { state: verdict, remainingMs: remainingMs() };
  if (verdict === "waiting")
    return { state: verdict, remainingMs: remainingMs(), changeInMs: msOf(row, "change_us") };
  if (verdict === "gone") return goneOf(row);
  throw strange();
}

export function readRecord(name: string, row: Row): ClaimRecord & { readonly capacity: number } {
  return {
    name,
    id: textOf(row, "id"),
    ticket: bigintOf(row, "ticket"),
    weight: numberOf(row, "weight"),
    capacity: numberOf(row, "capacity"),
    owner: JSON.parse(textOf(row, "owner")) as Owner,
    note: decodeText(textOf(row, "note")),
    ageMs: msOf(row, "age_us"),
    remainingMs: msOf(row, "remaining_us"),
  };
}

/** Why it is gone; without a reason, nobody knows. */
export function goneOf(row: Row | undefined): Gone {
  if (typeof row?.reason !== "string") return { state: "gone", loss: "taken" };
  const by = typeof row.by_whom === "string" ? { by: decodeText(row.by_whom) } : undefined;
  return { state: "gone", loss: "forced", reason: decodeText(row.reason), ...by };
}

export function textOf(row: Row | undefined, column: string): string {
  const value = row?.[column];
  if (typeof value !== "string") throw strange();
  return value;
}

export function numberOf(row: Row | undefined, column: string): number {
  const value = row?.[column];
  const number = typeof value === "number" || typeof value === "string" ? Number(value) : Number.NaN;
  if (!Number.isFinite(number)) throw strange();
  return number;
}

export function bigintOf(row: Row | undefined, column: string): bigint {
  const value = row?.[column];
  if (typeof value !== "string" && typeof value !== "number") throw strange();
  return BigInt(value);
}

function msOf(row: Row | undefined, column: string): number {
  return numberOf(row, column) / 1000;
}

function strange(): Error {
  return backendError("the answer is not one of our routines'. Has somebody changed them?", {
    retryable: false,
  });
}
