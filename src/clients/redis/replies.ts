import type { ClaimRecord, Gone } from "../../core/backend.js";
import { backendError, isLockError } from "../../core/errors.js";
import {
  countIn,
  listIn,
  numberIn,
  parsed,
  parseForce,
  readMetadata,
  textIn,
  ticketIn,
  unlike,
} from "../../engine-kit/replies.js";

/** The one place where a reply is read. What is none of our scripts' is an error, and never an answer. */
export function readReply<T>(reply: unknown, read: (reply: unknown) => T, where = ""): T {
  try {
    return read(reply);
  } catch (cause) {
    const of = where === "" ? "" : ` of ${where}`;
    const text = `the answer${of} is not one of our scripts'. Is this a Redis server?`;
    throw backendError(text, { retryable: false, cause });
  }
}

/** What SCAN answers: where to go on, which may be a number of 64 bits, and keys. */
export function readScan(reply: unknown): { readonly cursor: string; readonly keys: readonly string[] } {
  const [cursor, keys] = listIn(reply);
  if (!/^\d{1,20}$/.test(String(cursor))) throw unlike("a cursor");
  return { cursor: String(cursor), keys: listIn(keys).map(textIn) };
}

/** One for each claim, in their order. */
export function readEach<T>(reply: unknown, claims: number, readOne: (reply: unknown) => T): readonly T[] {
  const answers = listIn(reply).map(readOne);
  if (answers.length !== claims) throw unlike("one answer for each claim");
  return answers;
}

/** A claim as the scripts list it; `jsonIn` finds the metadata in what its process has written. */
export function readRecord(
  name: string,
  reply: unknown,
  jsonIn: (who: unknown) => unknown = (who) => who,
): ClaimRecord {
  const [id, ticket, weight, who, age, remaining] = listIn(reply);
  const { owner, note, resize } = readMetadata(parsed(jsonIn(who)));
  return {
    name,
    id: textIn(id),
    ticket: ticketIn(ticket),
    weight: countIn(weight),
    owner,
    note,
    resize,
    ageMs: msIn(age),
    remainingMs: msIn(remaining),
  };
}

/** As the scripts count: in µs. */
export function toUs(ms: number): string {
  return String(Math.round(ms * 1000));
}

/**
 * For a listing of many names: what another program, or a later release, has written under one of them must not hide the
 * others. The text is that of the scripts.
 */
export function skipUnreadable(error: unknown): undefined {
  const isUnreadable = isLockError(error) && error.message.includes("the head of this lock cannot be read");
  if (!isUnreadable) throw error;
}

export function msIn(us: unknown): number {
  return numberIn(us) / 1000;
}

export function goneIn(forced: unknown): Gone {
  return textIn(forced) === ""
    ? { state: "gone", loss: "taken" }
    : { state: "gone", loss: "forced", ...parseForce(textIn(forced)) };
}
