import { backendError, isLockError, LockError } from "../../core/errors.js";
import { plainText } from "../../core/plain-text.js";
import { asError } from "../../core/shape.js";
import { startTimer } from "../../core/timer.js";
import { tlsAdvice } from "../../core/tls-advice.js";

/** What says: this will not get better by asking again. */
const FINAL =
  /^(WRONGPASS|NOAUTH|NOPERM|WRONGTYPE|ERR|NOPROTO|DENIED|CROSSSLOT|NOSCRIPT)\b|answers without TLS|was never called$/;
/** What is said here and not by a library. */
export const WITHOUT_TLS = "the server answers without TLS at this port";
export const NOT_OPEN = "this client was closed, or its connect() was never called";
/** Before version 7 the server wraps what a script was told. */
const READ_ONLY = /\bREADONLY You can't write/;
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/^(WRONGPASS|NOAUTH|ERR AUTH|ERR invalid password)/, "Check the user name and the password."],
  [
    /^NOPERM|^ERR The user executing the script/,
    "Give this user the commands and keys that docs/engines/redis.md lists.",
  ],
  [/answers without TLS/, "Write redis:// in place of rediss://, or name the port where it speaks TLS."],
  [
    /was never called$/,
    "Call await client.connect() before the first lock, and close the client after the locks.",
  ],
  [/^OOM/, "The server's memory is full; raise maxmemory."],
  [READ_ONLY, "This server is a replica; connect to the primary, or through Sentinel."],
  [
    /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ETIMEDOUT|^not connected/,
    "Is the server running, and reachable from here?",
  ],
  [
    /ECONNRESET|Connection is closed|Socket closed/,
    "Is the server running, and does the URL say rediss just where it speaks TLS?",
  ],
];

/** What the libraries say of every command while they are not connected. */
const OFFLINE =
  /Stream isn't writeable|Reached the max retries|client is offline|client is closed|Disconnects client|Connection is closed|Socket closed/;

/** Of a command that failed for want of a connection, and what that last complained of: what tells more. */
export function clearer(error: unknown, trouble: unknown): unknown {
  // Libraries say different things then, and some of them nothing that could be understood.
  if (trouble instanceof Error && trouble.message === NOT_OPEN && !isLockError(error)) return trouble;
  if (!(error instanceof Error) || !OFFLINE.test(error.message)) return error;
  return trouble ?? new Error("not connected");
}

/** What a client library threw, as an error of ours that says what to do. */
export function redisError(error: unknown, where: string, isCallers = false): LockError {
  if (isLockError(error)) return error;
  const inner = innermost(error);
  const text = plainText(inner.message || inner.name).replace(/\.$/, "");
  const forTls = tlsAdvice(text, isCallers);
  const advice = ADVICE.find(([pattern]) => pattern.test(text))?.[1] ?? forTls?.advice;
  const retryable = (!FINAL.test(text) && forTls?.passes !== false) || READ_ONLY.test(text);
  return backendError(`Redis at ${where}: ${text}${advice === undefined ? "" : `. ${advice}`}`, {
    retryable,
    cause: scrubbed(inner),
  });
}

/** This connection leads to a replica. Nothing has been done: a script fails at the first key that it would write. */
export function isReadOnly(error: unknown): boolean {
  return READ_ONLY.test(innermost(error).message);
}

/** Cluster clients wrap what really happened. */
function innermost(error: unknown): Error {
  if (error instanceof AggregateError && error.errors[0] !== undefined) return innermost(error.errors[0]);
  if (error instanceof Error && "lastNodeError" in error && error.lastNodeError instanceof Error) {
    return innermost(error.lastNodeError);
  }
  return asError(error);
}

/** ioredis attaches the command with its arguments: a password, or the id of a claim. */
function scrubbed(error: Error): Error {
  if ("command" in error) delete error.command;
  return error;
}

export function lateError(timeoutMs: number, where: string): LockError {
  return backendError(`Redis at ${where}: no answer within ${timeoutMs} ms`, { retryable: true });
}

const SILENCE = "no answer within";

/** A connection could not be made because nothing came back, by our patience or by the library's. */
export function isSilence(error: unknown): boolean {
  return (
    error instanceof Error && (error.message.startsWith(SILENCE) || /ETIMEDOUT|timeout/i.test(error.message))
  );
}

/** For a step of making a connection, whose library may wait for ever. */
export async function within<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = startTimer(() => reject(new Error(`${SILENCE} ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

export function closedError(): LockError {
  return new LockError("closed", "the connection to Redis is closed.");
}
