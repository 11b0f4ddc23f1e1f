import { LockError } from "./errors.js";
import { quotedText } from "./plain-text.js";

/**
 * A name as one string, or as parts that are joined without ever meeting another list of parts: give parts where one of
 * them comes from outside. At most 255 bytes, without control characters.
 */
export type LockName = string | readonly string[];

const LONGEST_BYTES = 255;
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is the purpose
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

/**
 * The canonical form of a name: parts joined by `:`, with `\` and `:` inside a part escaped by `\`.
 * A string is taken as the joined form, so `"orders:42"` and `["orders", "42"]` are one lock.
 */
export function canonicalName(name: LockName, scope: readonly string[] = []): string {
  const joined = Array.isArray(name) ? joinParts(name) : checkText(name, "a lock's name");
  const full = scope.length === 0 ? joined : `${joinParts(scope)}:${joined}`;
  if (Buffer.byteLength(full) > LONGEST_BYTES) {
    throw invalidName(
      `the name ${quotedText(`${full.slice(0, 40)}…`)} has ${Buffer.byteLength(full)} bytes; at most ${LONGEST_BYTES} are allowed. Hash what is long.`,
    );
  }
  return full;
}

/** A prefix of names, for listing; empty means everything in the scope. */
export function canonicalPrefix(prefix: string, scope: readonly string[]): string {
  if (prefix !== "") checkText(prefix, "a prefix");
  return scope.length === 0 ? prefix : `${joinParts(scope)}:${prefix}`;
}

/** The first part of a name: few enough to label metrics with. */
export function groupOf(name: string): string {
  const match = /^(?:[^\\:]|\\.)*/s.exec(name);
  return match?.[0] ?? name;
}

export function joinParts(parts: readonly string[]): string {
  if (parts.length === 0) throw invalidName("a lock's name needs at least one part.");
  // Array.from visits the holes of a sparse array, too.
  return Array.from(parts, (part) =>
    checkText(part, "each part of a lock's name").replace(/[\\:]/g, "\\$&"),
  ).join(":");
}

function checkText(text: unknown, what: string): string {
  if (typeof text !== "string") {
    const found = text === null ? "null" : Array.isArray(text) ? "an array" : typeof text;
    throw invalidName(`${what} must be a string, not ${found}.`);
  }
  if (text === "") throw invalidName(`${what} must not be empty.`);
  if (CONTROL.test(text))
    throw invalidName(`${what} must not contain control characters: ${quotedText(text.slice(0, 60))}.`);
  // A lone surrogate has no UTF-8 form: two different strings would become one name on the engine.
  if (!text.isWellFormed())
    throw invalidName(`${what} must be well-formed Unicode: ${quotedText(text.slice(0, 60))}.`);
  return text;
}

function invalidName(message: string): LockError {
  return new LockError("invalid-name", message);
}
