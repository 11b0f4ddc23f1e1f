import { asError, backendError, isLockError, LockError } from "../../core/errors.js";
import { plainText } from "../../core/plain-text.js";
import { AnswerTimer } from "../../engine-kit/request-timeout.js";
import { tlsAdvice } from "../../engine-kit/tls.js";
import type { RedisSettings } from "./options.js";

/** What says: this will not get better by asking again. */
const FINAL =
  /^(WRONGPASS|NOAUTH|NOPERM|WRONGTYPE|ERR|NOPROTO|DENIED|CROSSSLOT|NOSCRIPT)\b|answers without TLS|was never called$|knows no master/;
/** What is said here and not by a library. */
export const WITHOUT_TLS = "the server answers without TLS at this port";
export const NOT_OPEN = "this client was closed, or its connect() was never called";
/** Before version 7 the server wraps what a script was told. */
const READ_ONLY = /\bREADONLY You can't write/;
const ADVICE: readonly (readonly [RegExp, string])[] = [
  [
    /^ERR unknown command.{1,2}SENTINEL/i,
    "This server is no sentinel. Name the sentinels, whose usual port is 26379; for a single server, write redis://host:port.",
  ],
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
    "Is the server running? Write rediss:// if it speaks TLS at this port, and redis:// if it does not.",
  ],
];

const NO_PASSWORD =
  "The URL has no password. Write it in front of the host: redis://:password@host, or redis://user:password@host.";

/** What the libraries say of every command while they are not connected. */
const OFFLINE =
  /Stream isn't writeable|Reached the max retries|client is offline|client is closed|Disconnects client|Connection is closed|Socket closed|Cluster isn't ready|Cluster is ended|None of startup nodes/;

/** And what Node.js says when a connection breaks under a request. */
const BROKEN = /\b(ECONNRESET|EPIPE|ETIMEDOUT|ECONNABORTED|EHOSTUNREACH|ENETUNREACH|ENETDOWN)\b/;
/** ioredis has tried again by itself, several times. */
const TRIED_AGAIN = /Too many Cluster redirections/;

/** There is no connection any more. Whether the request has been carried out is not known. */
export function isBroken(error: unknown): boolean {
  const { message } = innermost(error);
  return (OFFLINE.test(message) || BROKEN.test(message)) && !TRIED_AGAIN.test(message);
}

/** A node of a cluster cannot be reached: another one may serve its slots by now. */
export function isUnreachable(error: unknown): boolean {
  return isBroken(error) || /\bECONNREFUSED\b/.test(innermost(error).message);
}

/** The error of a command, or the last one of its connection, whichever tells more. */
export function clearer(error: unknown, trouble: unknown): unknown {
  // Libraries say different things then, and some of them nothing that could be understood.
  if (trouble instanceof Error && trouble.message === NOT_OPEN && !isLockError(error)) return trouble;
  if (!(error instanceof Error) || !OFFLINE.test(error.message)) return error;
  return trouble ?? new Error("not connected");
}

/** What a client library threw, as an error of ours that says what to do. */
export function redisError(
  error: unknown,
  where: string,
  { client, address }: Pick<RedisSettings, "client" | "address">,
): LockError {
  if (isLockError(error)) return error;
  const inner = innermost(error);
  const text = plainText(inner.message || inner.name).replace(/\.$/, "");
  const forTls = tlsAdvice(text, client !== undefined);
  const lacksPassword = /^NOAUTH/.test(text) && address !== undefined && address.password === undefined;
  const advice = lacksPassword
    ? NO_PASSWORD
    : (ADVICE.find(([pattern]) => pattern.test(text))?.[1] ?? forTls?.advice);
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

const SILENCE = "no answer within";

/** A connection could not be made because nothing came back, by our timeout or by the library's. */
export function isSilence(error: unknown): boolean {
  return (
    error instanceof Error && (error.message.startsWith(SILENCE) || /ETIMEDOUT|timeout/i.test(error.message))
  );
}

/** For a step of making a connection, whose library may wait for ever; in the background, the process may end meanwhile. */
export async function within<T>(work: Promise<T>, timeoutMs: number, inBackground = false): Promise<T> {
  let timer: AnswerTimer | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = new AnswerTimer(timeoutMs, () => reject(new Error(`${SILENCE} ${timeoutMs} ms`)));
    if (inBackground) timer.unref();
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    timer?.stop();
  }
}

export function closedError(): LockError {
  return new LockError("closed", "the connection to Redis is closed.");
}
