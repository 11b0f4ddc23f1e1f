import { asError, backendError, isLockError, LockError } from "../../core/errors.js";
import { plainText } from "../../core/plain-text.js";
import { tlsAdvice } from "../../engine-kit/tls.js";
import type { Explanation } from "./driver.js";

/** An error of the library or the server, for the operator of the program. */
export function explained(
  engine: string,
  where: string,
  error: unknown,
  explain: (error: unknown) => Explanation,
  isCallers = false,
): LockError {
  if (isLockError(error)) return error;
  const inner = error instanceof AggregateError && error.errors[0] instanceof Error ? error.errors[0] : error;
  const { isServers, passes, advice } = explain(inner);
  const text = plainText(textOf(inner)).replace(/\.$/, "");
  const forTls = isServers ? undefined : tlsAdvice(text, isCallers);
  const told = forTls?.advice ?? advice;
  return backendError(`${engine} at ${where}: ${text}${told === undefined ? "" : `. ${told}`}`, {
    retryable: passes && forTls?.passes !== false,
    cause: scrubbed(inner),
  });
}

function textOf(error: unknown): string {
  const { message, name } = asError(error);
  return message || codeOf(error) || name;
}

/** The caller has ended the pool that is used here. */
export const ENDED_POOL = "End the pool after the locks: await locks.close() comes first.";

export function codeOf(error: unknown): string {
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : "";
}

/** A library may attach the statement with its values. */
function scrubbed(error: unknown): unknown {
  if (typeof error === "object" && error !== null && "sql" in error) delete error.sql;
  return error;
}

export function lateError(
  engine: string,
  where: string,
  timeoutMs: number,
  advice = "Is it reachable, and has the pool a connection left?",
): LockError {
  return backendError(`${engine} at ${where}: no answer within ${timeoutMs} ms. ${advice}`, {
    retryable: true,
  });
}

/** This connection leads to a server that cannot write; another one may lead to the primary. */
export class ReadOnlyServerError extends LockError {
  /** A caller need not know of this class. */
  static override readonly name = "LockError";

  constructor(engine: string, where: string) {
    super(
      "backend",
      `${engine} at ${where}: this server is read-only, as replicas are. Connect to the primary.`,
      { retryable: true },
    );
  }
}

export function closedError(engine: string): LockError {
  return new LockError("closed", `the connection to ${engine} is closed.`);
}

/** `lack` says what is not there, `module` which module prints the migration. */
export function missingSchema(lack: string, prefix: string, module: string): LockError {
  return new LockError(
    "unsupported",
    `${lack}, and schema: "verify" makes none. Run the migration that migration("${prefix}") of ${module} in this release prints, or leave schema: "verify" out, and it is made.`,
  );
}

/** A release that has been at work here changed what this one would share with it. */
export function tooNewError(what: string, breaking: number, known: number): LockError {
  return new LockError(
    "unsupported",
    `${what} were changed by a newer release of Locktender, for revision ${breaking} and later. This release has revision ${known}, and its locks would not exclude those of the newer one. Update Locktender here.`,
  );
}
