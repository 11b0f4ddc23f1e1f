// The parts of replies that decide something: each function gives the part, or throws if it is not what it has to be.
// So a reply that is none never looks like a grant. An engine reads each reply in one place, and tells a failure
// there as its own error. Numbers may come as texts.

const TICKET = /^(?=\d*[1-9])\d{1,19}$/;
const DECIMAL = /^-?\d+(\.\d+)?$/;

/** Of which tokens and versions are made: a whole number from 1 on. */
export function ticketIn(value: unknown): bigint {
  if (typeof value === "number" && value > 0 && Number.isSafeInteger(value)) return BigInt(value);
  if (typeof value === "string" && TICKET.test(value)) return BigInt(value);
  if (typeof value === "bigint" && value > 0n) return value;
  throw unlike("a ticket");
}

/** A whole number from 0 on. */
export function countIn(value: unknown): number {
  const count = numberIn(value);
  if (count < 0 || !Number.isSafeInteger(count)) throw unlike("a count");
  return count;
}

/** A time, in whatever unit; clocks may make it negative. */
export function numberIn(value: unknown): number {
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (typeof value === "bigint" || (typeof value === "string" && DECIMAL.test(value))) return Number(value);
  throw unlike("a number");
}

/** Yes or no, as 1 or 0. */
export function bitIn(value: unknown): boolean {
  const bit = countIn(value);
  if (bit > 1) throw unlike("0 or 1");
  return bit === 1;
}

export function textIn(value: unknown): string {
  if (typeof value !== "string") throw unlike("a text");
  return value;
}

export function listIn(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw unlike("a list");
  return value;
}

export function unlike(expected: string): Error {
  return new TypeError(`the reply has something else where ${expected} should be`);
}
