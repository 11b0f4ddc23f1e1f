import type { Gone } from "../../core/backend.js";
import { backendError, type LockError } from "../../core/errors.js";
import { parseForce } from "../../engine-kit/claim-metadata.js";
import { listIn, numberIn, textIn, unlike } from "../../engine-kit/reply.js";

/** The one place where a reply is read. What is none of our scripts' is an error, and never an answer. */
export function readReply<T>(reply: unknown, read: (reply: unknown) => T, where = ""): T {
  try {
    return read(reply);
  } catch (cause) {
    throw notOurs(where, cause);
  }
}

function notOurs(where: string, cause: unknown): LockError {
  const of = where === "" ? "" : ` of ${where}`;
  return backendError(`the answer${of} is not one of our scripts'. Is this a Redis server?`, {
    retryable: false,
    cause,
  });
}

/** What SCAN answers: where to go on, which may be a number of 64 bits, and keys. */
export function readScan(reply: unknown): { readonly cursor: string; readonly keys: readonly string[] } {
  const [cursor, keys] = listIn(reply);
  if (!/^\d{1,20}$/.test(String(cursor))) throw unlike("a cursor");
  return { cursor: String(cursor), keys: listIn(keys).map(textIn) };
}

export function msIn(us: unknown): number {
  return numberIn(us) / 1000;
}

export function goneIn(forced: unknown): Gone {
  return textIn(forced) === ""
    ? { state: "gone", loss: "taken" }
    : { state: "gone", loss: "forced", ...parseForce(textIn(forced)) };
}
