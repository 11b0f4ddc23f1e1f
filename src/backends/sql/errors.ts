import { asError, backendError, isLockError, LockError } from "../../core/errors.js";
import { plainText } from "../../core/plain-text.js";
import { tlsAdvice } from "../../engine-kit/tls.js";

/** What an error of the library or the server says about the next step. */
export type Meaning =
  /** The connection cannot be used again. */
  | "broken"
  /** Two transactions were in each other's way: this one was undone as a whole, and is worth another try. */
  | "collision"
  /** Refused as a whole, because what was prepared is no longer so: worth another try at once. */
  | "stale"
  /** There are no routines, or no tables. */
  | "missing"
  /** This server cannot write, at least for now; nothing has been done. Another connection may lead to one that can. */
  | "read-only"
  | "other";

/** What an error means to the operator of the program. */
export interface Explanation {
  /** Whether the server itself has said it. */
  readonly isFromServer: boolean;
  /** Whether it may pass by itself. */
  readonly mayPass: boolean;
  readonly advice: string | undefined;
}

/** An error of the library or the server, for the operator of the program. */
export function explained(
  driver: { readonly engine: string; explain(error: unknown): Explanation },
  { where, target }: { readonly where: string; readonly target: { readonly pool?: unknown } },
  error: unknown,
): LockError {
  if (isLockError(error)) return error;
  const inner = error instanceof AggregateError && error.errors[0] instanceof Error ? error.errors[0] : error;
  const { isFromServer, mayPass, advice } = driver.explain(inner);
  const text = plainText(textOf(inner)).replace(/\.$/, "");
  const forTls = isFromServer ? undefined : tlsAdvice(text, target.pool !== undefined);
  const told = forTls?.advice ?? advice;
  return backendError(`${driver.engine} at ${where}: ${text}${told === undefined ? "" : `. ${told}`}`, {
    retryable: mayPass && forTls?.passes !== false,
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
export function missingSchema(
  { lack, module }: { readonly lack: string; readonly module: string },
  prefix: string,
): LockError {
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
