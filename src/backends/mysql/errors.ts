import { backendError, LockError } from "../../core/errors.js";
import type { Explanation, Meaning } from "../sql/driver.js";

const PAGE = "docs/engines/mysql.md";
const RIGHTS = `Give this user the rights that ${PAGE} lists.`;

/** What the server's numbers mean to whoever runs the program. */
const ADVICE: Readonly<Record<number, string>> = {
  1044: RIGHTS,
  1142: RIGHTS,
  1227: RIGHTS,
  1370: RIGHTS,
  1045: "Check the user name and the password.",
  1698: "Check the user name and the password.",
  1049: "Create the database, or name another one.",
  1040: "The server has no connection left; raise max_connections.",
  1021: "The disk of the server is full. Make room; until then no lock can be taken or renewed.",
  1114: "The disk of the server, or the space for its tables, is full. Make room; until then no lock can be taken or renewed.",
  1290: "This server is a replica, or read-only; connect to the primary.",
  1836: "This server is a replica, or read-only; connect to the primary.",
};

/** What may pass by itself: no room, no connection, a shutdown, a read-only time, locks, a killed statement. */
const PASSING = new Set([
  1021, 1030, 1040, 1041, 1053, 1077, 1114, 1135, 1203, 1205, 1213, 1226, 1290, 1317, 1836, 1927, 1969, 3024,
  3100,
]);

/** 0 unless the server itself has said it. */
function numberOf(error: unknown): number {
  if (typeof error !== "object" || error === null || !("errno" in error && "sqlState" in error)) return 0;
  return typeof error.errno === "number" && error.sqlState !== undefined ? error.errno : 0;
}

export function meaningOf(error: unknown): Meaning {
  const number = numberOf(error);
  if (number === 0 || number === 1053 || number === 1927 || isFatal(error)) return "broken";
  if (number === 1213 || number === 1205) return "collision";
  return number === 1305 || number === 1146 ? "missing" : "other";
}

export function explain(error: unknown): Explanation {
  const number = numberOf(error);
  const unreachable = number === 0 ? "Is the server running, and reachable from here?" : undefined;
  return { isServers: number !== 0, passes: PASSING.has(number), advice: ADVICE[number] ?? unreachable };
}

function isFatal(error: unknown): boolean {
  return (error as { readonly fatal?: unknown }).fatal === true;
}

export function replicaError(where: string): LockError {
  return backendError(
    `MySQL at ${where}: this server is read-only, as replicas are. Connect to the primary.`,
    {
      retryable: true,
    },
  );
}

export function charsetError(found: string): LockError {
  return new LockError(
    "unsupported",
    `the pool's connections speak "${found}", in which different names could become one. Let the pool have charset: "utf8mb4".`,
  );
}

export function busyError(prefix: string, patienceS: number): LockError {
  return backendError(
    `somebody else has been making the tables "${prefix}_…" for ${patienceS} s. Is a process stuck there?`,
    { retryable: true },
  );
}
