import { asError, LockError } from "../../core/errors.js";
import { quotedText } from "../../core/plain-text.js";
import type { Explanation, Meaning } from "../sql/driver.js";
import { codeOf, ENDED_POOL } from "../sql/errors.js";

export const ENGINE = "PostgreSQL";

const PAGE = "docs/engines/postgres.md";

const ENDED = /^Cannot use a pool after calling end/;
const WANTS_TLS =
  "The server wants TLS: add ?sslmode=require to the URL, or ?sslmode=no-verify if its certificate is self-signed.";

/** Of a server that says nothing to a new connection. */
export const SILENT =
  "Is the server running and reachable from here, and is it PostgreSQL that listens at this port?";

/** What `pg` says, which has no code, by its words. */
const WORDS: readonly (readonly [RegExp, string])[] = [
  [/^timeout expired$|^received invalid response/, SILENT],
  [ENDED, ENDED_POOL],
];

/** What SQLSTATEs mean to the operator of the program; the first that fits. */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/^28/, "Check the user name and the password."],
  [/^3D/, "Create the database, or name another one."],
  [
    /^42501/,
    `Give this user the rights that ${PAGE} lists; after an upgrade, run the migration of this release first.`,
  ],
  [/^25006/, "This server is a replica, or read-only; connect to the primary."],
  [/^53100/, "The disk of the server is full. Make room; until then no lock can be taken or renewed."],
  [/^53300/, "The server has no connection left; raise max_connections, or put a pooler in front."],
  [/^CONNECT_TIMEOUT/, SILENT],
  [
    /^(ECONN|CONNECT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ETIMEDOUT)/,
    "Is the server running, and reachable from here?",
  ],
];

/** Classes that may pass by themselves: connections, replicas, deadlocks, resources, operators, the system. */
const PASSING = /^(08|25006|40|53|55|57|58|XX)/;

/** Whether the server itself has said it. */
function isServers(error: unknown): error is { readonly severity: unknown } {
  return typeof error === "object" && error !== null && "severity" in error;
}

/** Whether the connection on which this error came can still be used. */
export function goesOn(error: unknown): boolean {
  return isServers(error) && !/^(08|57P)/.test(codeOf(error)) && error.severity !== "FATAL";
}

/** A pooler gave the next request to another connection, where it is not prepared; or to one where it is. */
export function isUnprepared(error: unknown): boolean {
  return /^(26000|42P05)$/.test(codeOf(error));
}

/** Changed while we were at work: a plan of ours, or a routine. */
function isOutdated(error: unknown): boolean {
  return codeOf(error) === "0A000" && /cached plan/.test(String((error as Error).message));
}

export function meaningOf(error: unknown): Meaning {
  const code = codeOf(error);
  if (!goesOn(error)) return "broken";
  if (/^(40001|40P01)$/.test(code)) return "collision";
  if (/^(3F000|42883|42P01)$/.test(code)) return "missing";
  if (code === "25006") return "read-only";
  return isUnprepared(error) || isOutdated(error) ? "stale" : "other";
}

/** What a server says to a user who may come by TLS only; version 11 says it in the second way. */
function wantsTls(error: unknown): boolean {
  return codeOf(error) === "28000" && /no encryption|SSL off/.test(String((error as Error).message));
}

export function explain(error: unknown): Explanation {
  const code = codeOf(error);
  if (wantsTls(error)) return { isServers: true, passes: false, advice: WANTS_TLS };
  const { message } = asError(error);
  const told =
    code === "" ? WORDS.find(([words]) => words.test(message)) : ADVICE.find(([codes]) => codes.test(code));
  return {
    isServers: isServers(error),
    passes: isServers(error) ? PASSING.test(code) : !ENDED.test(message),
    advice: told?.[1],
  };
}

export function isolationError(found: string): LockError {
  return new LockError(
    "unsupported",
    `PostgreSQL runs this user's transactions as ${quotedText(found)}, where what others have just committed cannot be seen. Let default_transaction_isolation be "read committed" for it (ALTER ROLE … SET).`,
  );
}
