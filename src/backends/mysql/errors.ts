import { backendError, isLockError, LockError } from "../../core/errors.js";

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
  ...[
    1021, 1030, 1040, 1041, 1053, 1077, 1114, 1135, 1203, 1205, 1213, 1226, 1290, 1317, 1836, 1927, 1969,
    3024, 3100,
  ],
]);

function numberOf(error: unknown): number {
  const number = typeof error === "object" && error !== null && "errno" in error ? error.errno : undefined;
  return typeof number === "number" && isServers(error) ? number : 0;
}

/** Whether the server itself has said it. */
function isServers(error: unknown): boolean {
  return typeof error === "object" && error !== null && "sqlState" in error && error.sqlState !== undefined;
}

/** The connection cannot be used again. */
export function isBroken(error: unknown): boolean {
  const number = numberOf(error);
  return number === 0 || number === 1053 || number === 1927 || (error as { fatal?: unknown }).fatal === true;
}

/** Two that were in each other's way: all of it was undone, and it is worth another try. */
export function isCollision(error: unknown): boolean {
  const number = numberOf(error);
  return number === 1213 || number === 1205;
}

/** There are no routines, or no tables. */
export function isMissing(error: unknown): boolean {
  const number = numberOf(error);
  return number === 1305 || number === 1146;
}

export function explain(error: unknown, where: string): LockError {
  if (isLockError(error)) return error;
  const number = numberOf(error);
  const text = (error instanceof Error ? error.message || codeOf(error) : String(error)).replace(/\.$/, "");
  const certificate = number === 0 && /certificate|self.signed|SSL|secure connection/i.test(text);
  const advice = certificate
    ? "The server must speak TLS, and Node.js must trust whoever signed its certificate: name that authority by the option tls."
    : (ADVICE[number] ?? (number === 0 ? "Is the server running, and reachable from here?" : undefined));
  return backendError(`MySQL at ${where}: ${text}${advice === undefined ? "" : `. ${advice}`}`, {
    retryable: number === 0 ? !certificate : PASSING.has(number),
    cause: scrubbed(error),
  });
}

function codeOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : error.name;
}

/** The library attaches the statement with its values. */
function scrubbed(error: unknown): unknown {
  if (typeof error === "object" && error !== null && "sql" in error) delete error.sql;
  return error;
}

export function lateError(timeoutMs: number, where: string): LockError {
  return backendError(
    `MySQL at ${where}: no answer within ${timeoutMs} ms. Is it reachable, and has the pool a connection left?`,
    { retryable: true },
  );
}

export function closedError(): LockError {
  return new LockError("closed", "the connection to MySQL is closed.");
}

export function missingSchema(prefix: string): LockError {
  return new LockError(
    "unsupported",
    `the database has no tables and procedures "${prefix}_…" for the locks, and schema: "verify" makes none. Run the migration that migration("${prefix}") of locktender/mysql prints, or let schema: "create" do it.`,
  );
}

export function otherVersion(prefix: string, found: number, known: number): LockError {
  const remedy =
    found > known
      ? "Use a newer release here, or another prefix"
      : "Run the migration of this release when no older one is at work, or use another prefix";
  return new LockError(
    "unsupported",
    `the tables and procedures "${prefix}_…" have version ${found}, and this release of Locktender knows version ${known}. ${remedy}.`,
  );
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
