import { isPermits } from "../core/acquire-request.js";
import type { ClaimRecord, ClaimRequest, Force, Notification } from "../core/backend.js";
import { type Owner, TOKEN_STEP } from "../core/claim.js";

// What is shown about a claim is one JSON object, which engines store beside it. Its fields are optional: a reader
// ignores those that it does not know, because another release may have written them. No field decides about a grant;
// others may write there, too, and what cannot be read is shown as that of another program.

type Metadata = Pick<ClaimRequest, "owner" | "note" | "resize">;

/** What was read; the fields that only one engine writes are as they were found. */
export interface StoredMetadata extends Pick<ClaimRecord, "owner" | "note" | "resize"> {
  /** Where its process hears that it was taken away; `undefined` also if Locktender has not written it. */
  readonly notify: string | undefined;
  readonly [field: string]: unknown;
}

/** The owner of a claim that was not written by us. */
export const UNKNOWN_OWNER: Owner = { instance: "another program", host: "unknown", pid: 0 };

/** The fields that every engine writes; an engine may add some of its own. */
export function metadataOf({ owner: all, note, resize }: Metadata): object {
  const { holds, tasks, number, sticky, ...owner } = all;
  // What is undefined is left out of the JSON.
  return { v: 1, owner, note: note === "" ? undefined : note, holds, tasks, number, sticky, resize };
}

/** `metadataOf` as text. Most claims of a process show the same, so the last text is kept. */
export class MetadataText {
  #last: Metadata | undefined;
  #text = "";

  /** The text to store with this claim. */
  of(claim: Metadata): string {
    const last = this.#last;
    if (last?.owner !== claim.owner || last.note !== claim.note || last.resize !== claim.resize) {
      this.#last = claim;
      this.#text = JSON.stringify(metadataOf(claim));
    }
    return this.#text;
  }
}

/** Takes the object, as `parsed`, or the list of owner and note that releases before wrote on Redis. */
export function readMetadata(stored: unknown): StoredMetadata {
  const asObject = typeof stored === "object" ? stored : undefined;
  const fields = (Array.isArray(stored) ? { owner: stored[0], note: stored[1] } : asObject) ?? {};
  // Releases before named it `bell`, and kept `holds` inside the owner.
  const {
    owner,
    note,
    holds,
    tasks,
    number,
    sticky,
    resize,
    bell,
    notify = bell,
    ...others
  } = fields as Record<string, unknown>;
  const shown = ownerIn(owner);
  const more = {
    ...(Array.isArray(holds) ? { holds } : undefined),
    ...(isCount(tasks) && tasks > 0 ? { tasks } : undefined),
    ...(isCount(number) && number < TOKEN_STEP ? { number } : undefined),
    ...(sticky === true ? { sticky: true as const } : undefined),
  };
  return {
    ...others,
    owner: shown === UNKNOWN_OWNER ? shown : { ...shown, ...more },
    note: typeof note === "string" ? note : "",
    ...(isPermits(resize) ? { resize } : undefined),
    notify: typeof notify === "string" ? notify : undefined,
  };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

export function ownerIn(value: unknown): Owner {
  if (typeof value !== "object" || value === null) return UNKNOWN_OWNER;
  const { service, instance, version, host, pid } = value as Partial<Record<keyof Owner, unknown>>;
  const texts = [instance, host, service ?? "", version ?? ""];
  const isOwner = texts.every((text) => typeof text === "string") && typeof pid === "number";
  return isOwner ? (value as Owner) : UNKNOWN_OWNER;
}

/** A time that another process has written down. */
export function shownMs(value: unknown, otherwise: number): number {
  return typeof value === "number" && Number.isFinite(value) ? value : otherwise;
}

/** What a text says as JSON; `undefined` if nothing. */
export function parsed(text: unknown): unknown {
  try {
    return typeof text === "string" ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

// What a process said when taking a claim away. The engine keeps it as JSON, where the victim reads it.

/** As far as it can be read: that the claim was taken away is certain. */
export function forceIn(value: unknown): Partial<Force> {
  const { reason, by, resize } = (value ?? {}) as Readonly<Record<keyof Force, unknown>>;
  return {
    ...(typeof reason === "string" ? { reason } : undefined),
    ...(typeof by === "string" ? { by } : undefined),
    ...(isPermits(resize) ? { resize } : undefined),
  };
}

/** `undefined`: not written by us. On some engines every user of the server can write there. */
export function parseForce(json: string): Force | undefined {
  const { reason, ...rest } = forceIn(parsed(json));
  return reason === undefined ? undefined : { reason, ...rest };
}

/**
 * What the server has told about a claim: `<ticket> <id> ` and `granted`, `wanted`, `ask`, or JSON of why it was taken away.
 * `undefined`: anything else is noise.
 */
export function readMessage(
  message: string,
  readForce = parseForce,
): { readonly id: string; readonly notification?: Notification } | undefined {
  const [, digits, id = "", rest = ""] = /^(\d+) (\S+) (.*)$/s.exec(message) ?? [];
  if (digits === undefined) return undefined;
  const ticket = BigInt(digits);
  if (rest === "granted" || rest === "wanted") return { id, notification: { state: rest, ticket } };
  if (rest === "ask") return { id };
  const force = readForce(rest);
  return force && { id, notification: { state: "gone", loss: "forced", ticket, ...force } };
}

/** Why a claim is taken away, as text to store or to send: `parseForce` reads it. */
export function forceText({ reason, by, resize }: Force): string {
  return JSON.stringify({ reason, by, resize });
}

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

/** A text. */
export function textIn(value: unknown): string {
  if (typeof value !== "string") throw unlike("a text");
  return value;
}

/** A list; what is in it is not looked at. */
export function listIn(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw unlike("a list");
  return value;
}

/** The error of the functions above: a reply is not what it has to be. */
export function unlike(expected: string): Error {
  return new TypeError(`the reply has something else where ${expected} should be`);
}
