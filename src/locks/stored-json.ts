import { backendError, invalidOption } from "../core/errors.js";
import { plainText } from "../core/plain-text.js";

/** Small enough for every engine. */
const MOST_BYTES = 64 * 1024;

/** What is kept of a value; a reader gets what JSON makes of it, and nothing else. */
export function jsonText(value: unknown, what: string, name: string): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw invalidOption(`${what}: must be a value that JSON can express: ${plainText(why)}`, name);
  }
  if (text === undefined) {
    throw invalidOption(`${what}: must be a value that JSON can express, not ${typeof value}.`, name);
  }
  const bytes = Buffer.byteLength(text);
  if (bytes <= MOST_BYTES) return text;
  throw invalidOption(
    `${what}: has ${bytes} bytes as JSON, and ${MOST_BYTES} are the most. Keep it elsewhere, and a reference here.`,
    name,
  );
}

/** What the engine has kept; others may have written there, too. */
export function storedJson(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw backendError(`what is stored as "${name}" is no JSON, so it was not written by Locktender.`, {
      name,
      retryable: false,
      cause,
    });
  }
}
