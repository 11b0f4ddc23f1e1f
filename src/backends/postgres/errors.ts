import { backendError, isLockError, LockError } from "../../core/errors.js";

const PAGE = "docs/engines/postgres.md";

/** What SQLSTATEs mean to whoever runs the program; the first that fits. */
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/^28/, "Check the user name and the password."],
  [/^3D/, "Create the database, or name another one."],
  [/^42501/, `Give this user the rights that ${PAGE} lists.`],
  [/^25006/, "This server is a replica, or read-only; connect to the primary."],
  [/^53100/, "The disk of the server is full. Make room; until then no lock can be taken or renewed."],
  [/^53300/, "The server has no connection left; raise max_connections, or put a pooler in front."],
  [/^(ECONN|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ETIMEDOUT)/, "Is the server running, and reachable from here?"],
];

/** Classes that may pass by themselves: connections, replicas, deadlocks, resources, operators, the system. */
const PASSING = /^(08|25006|40|53|55|57|58|XX)/;

function codeOf(error: unknown): string {
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : "";
}

/** Whether the server itself has said it, and goes on with the connection. */
function isServers(error: unknown): boolean {
  return typeof error === "object" && error !== null && "severity" in error;
}

/** The connection cannot be used again. */
export function isBroken(error: unknown): boolean {
  return (
    !isServers(error) ||
    /^(08|57P)/.test(codeOf(error)) ||
    (error as { severity: string }).severity === "FATAL"
  );
}

/** Two that were in each other's way: worth another try at once. */
export function isCollision(error: unknown): boolean {
  return /^(40001|40P01)$/.test(codeOf(error));
}

/** There is no schema, or not what we need in it. */
export function isMissing(error: unknown): boolean {
  return /^(3F000|42883|42P01)$/.test(codeOf(error));
}

/** A pooler gave the next request to another connection, where it is not prepared; or to one where it is. */
export function isUnprepared(error: unknown): boolean {
  return /^(26000|42P05)$/.test(codeOf(error));
}

/** Changed while we were at work: a plan of ours, or a routine. */
export function isStale(error: unknown): boolean {
  return codeOf(error) === "0A000" && /cached plan/.test(String((error as Error).message));
}

export function explain(error: unknown, where: string): LockError {
  if (isLockError(error)) return error;
  const inner = error instanceof AggregateError && error.errors[0] instanceof Error ? error.errors[0] : error;
  const code = codeOf(inner);
  const text = (inner instanceof Error ? inner.message || inner.name : String(inner)).replace(/\.$/, "");
  const certificate = /certificate|self.signed|SSL/i.test(text) && !isServers(inner);
  const advice = certificate
    ? "The server must speak TLS, and Node.js must trust whoever signed its certificate: name that authority by the option tls."
    : ADVICE.find(([pattern]) => pattern.test(code))?.[1];
  const retryable = isServers(inner) ? PASSING.test(code) : !certificate;
  return backendError(`PostgreSQL at ${where}: ${text}${advice === undefined ? "" : `. ${advice}`}`, {
    retryable,
    cause: inner,
  });
}

export function lateError(timeoutMs: number, where: string): LockError {
  return backendError(
    `PostgreSQL at ${where}: no answer within ${timeoutMs} ms. Is it reachable, and has the pool a connection left?`,
    { retryable: true },
  );
}

export function closedError(): LockError {
  return new LockError("closed", "the connection to PostgreSQL is closed.");
}

export function missingSchema(schema: string): LockError {
  return new LockError(
    "unsupported",
    `PostgreSQL has no schema "${schema}" with the tables and functions of the locks, and schema: "verify" makes none. Run the migration that migration("${schema}") of locktender/postgres prints, or let schema: "create" do it.`,
  );
}

export function otherVersion(schema: string, found: number, known: number): LockError {
  const remedy =
    found > known
      ? "Use a newer release here, or another prefix"
      : "Run the migration of this release when no older one is at work, or use another prefix";
  return new LockError(
    "unsupported",
    `the schema "${schema}" has version ${found} of the tables and functions, and this release of Locktender knows version ${known}. ${remedy}.`,
  );
}

export function replicaError(where: string): LockError {
  return backendError(`PostgreSQL at ${where}: this server is a replica. Connect to the primary.`, {
    retryable: true,
  });
}

export function isolationError(found: string): LockError {
  return new LockError(
    "unsupported",
    `PostgreSQL runs this user's transactions as "${found}", where what others have just committed cannot be seen. Let default_transaction_isolation be "read committed" for it (ALTER ROLE … SET).`,
  );
}
