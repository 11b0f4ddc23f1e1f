import { asError, backendError, LockError } from "../../core/errors.js";
import { quotedText } from "../../core/plain-text.js";
import { ENDED_POOL, type Explanation, type Meaning } from "../sql/errors.js";

export const ENGINE = "MySQL";

const PAGE = "docs/engines/mysql.md";
const RIGHTS = `Give this user the rights that ${PAGE} lists; after an upgrade, run the migration of this release first.`;
const UNREACHABLE = "Is the server running, and reachable from here?";
const LOGIN =
  "Check the user name and the password. A user who has to use TLS needs ?sslmode=require in the URL.";

/** What the server's numbers mean to the operator of the program. */
const ADVICE: Readonly<Record<number, string>> = {
  1044: RIGHTS,
  1142: RIGHTS,
  1227: RIGHTS,
  1370: RIGHTS,
  1045: LOGIN,
  1698: LOGIN,
  3159: "The server wants TLS: add ?sslmode=require to the URL.",
  1049: "Create the database, or name another one.",
  1040: "The server has no connection left; raise max_connections.",
  1021: "The disk of the server is full. Make room; until then no lock can be taken or renewed.",
  1114: "The disk of the server, or the space for its tables, is full. Make room; until then no lock can be taken or renewed.",
  1290: "This server is a replica, or read-only; connect to the primary.",
  1792: "This server is a replica, or read-only; connect to the primary.",
  1836: "This server is a replica, or read-only; connect to the primary.",
  3032: "This server is in offline mode, and lets administrators in only.",
  1047: "This node of the cluster is not ready, because it has just come back or has lost the others.",
};

/** Servers that cannot write, or not yet: replicas, nodes of a cluster without the others, and those in offline mode. */
const READ_ONLY = new Set([1047, 1290, 1792, 1836, 3032, 3100, 3168]);

/**
 * The connection has ended, or may be in the middle of a transaction: MySQL, unlike MariaDB, runs no handler of a
 * routine whose statement was killed (1317), or was stopped by a limit in time (1969, 3024), and leaves its work open.
 */
const BROKEN = new Set([1053, 1317, 1568, 1927, 1969, 3024, 3169, 4031]);

/** Undone as a whole: a deadlock, a lock that was waited for in vain, a conflict with another member of a group. */
const COLLISIONS = new Set([1205, 1213, 3101]);

/** What may pass by itself: no room, no connection, a shutdown, a read-only time, locks, a killed statement. */
const PASSING = new Set([
  ...[1021, 1030, 1040, 1041, 1077, 1114, 1135, 1180, 1203, 1226, 1615],
  ...READ_ONLY,
  ...BROKEN,
  ...COLLISIONS,
]);

/** 0 unless the server itself has said it. */
function numberOf(error: unknown): number {
  if (typeof error !== "object" || error === null || !("errno" in error && "sqlState" in error)) return 0;
  return typeof error.errno === "number" && error.sqlState !== undefined ? error.errno : 0;
}

/** Whether the server itself has said it. */
export function isFromServer(error: unknown): boolean {
  return numberOf(error) !== 0;
}

/** `read_only` of a server: a number, or one of several words in newer versions of MariaDB. */
export function isWritable(readOnly: unknown): boolean {
  return /^(0|OFF)$/i.test(String(readOnly));
}

export function meaningOf(error: unknown): Meaning {
  const number = numberOf(error);
  // Before others: a server in offline mode ends the connection as well.
  if (READ_ONLY.has(number)) return "read-only";
  if (number === 0 || BROKEN.has(number) || isFatal(error)) return "broken";
  if (COLLISIONS.has(number)) return "collision";
  if (number === 1615) return "stale";
  return number === 1305 || number === 1146 ? "missing" : "other";
}

export function explain(error: unknown): Explanation {
  const number = numberOf(error);
  if (number !== 0) return { isFromServer: true, mayPass: PASSING.has(number), advice: ADVICE[number] };
  const isEnded = asError(error).message === "Pool is closed.";
  return { isFromServer: false, mayPass: !isEnded, advice: isEnded ? ENDED_POOL : UNREACHABLE };
}

function isFatal(error: unknown): boolean {
  return (error as { readonly fatal?: unknown }).fatal === true;
}

export function charsetError(found: string): LockError {
  return new LockError(
    "unsupported",
    `the pool's connections speak ${quotedText(found)}, in which different names could become one. Let the pool have charset: "utf8mb4".`,
  );
}

export function busyError(prefix: string, waitedS: number): LockError {
  return backendError(
    `another process has been making the tables "${prefix}_…" for ${waitedS} s. Is it stuck there?`,
    { retryable: true },
  );
}
