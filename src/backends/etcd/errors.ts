import { asError, backendError, isLockError, LockError } from "../../core/errors.js";
import { plainText } from "../../core/plain-text.js";
import { tlsAdvice } from "../../engine-kit/tls.js";

/** The codes of gRPC that are told apart here. */
export const CODE = {
  invalidArgument: 3,
  deadlineExceeded: 4,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  unavailable: 14,
  unauthenticated: 16,
} as const;

const FINAL: ReadonlySet<number> = new Set([
  CODE.invalidArgument,
  CODE.permissionDenied,
  CODE.failedPrecondition,
  CODE.unauthenticated,
]);

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/authentication failed|invalid auth token/, "Check the user name and the password."],
  [/user name is empty/, "The servers want a user: etcd://user:password@host."],
  [/authentication is not enabled/, "Leave the user out of the url, or enable authentication."],
  [/permission denied/, "Give this user the keys that docs/engines/etcd.md lists."],
  [/space exceeded/, "The database is full: compact and defragment it, then disarm its alarm."],
  [/lease not found/, "Answers take longer than the ttl: raise it, or look at the network."],
  [/no leader|request timed out|leader changed/, "The ensemble has no majority, or is just electing."],
  [
    /ECONNRESET|Failed to connect/,
    "Are the servers running, and does the URL say etcds:// just where they speak TLS?",
  ],
  [
    /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|No connection established|Name resolution failed/,
    "Are the servers running, and reachable from here?",
  ],
];

interface GrpcError {
  readonly code: number;
  readonly details: string;
}

export function codeOf(error: unknown): number | undefined {
  const code = (error as GrpcError | undefined)?.code;
  return typeof code === "number" ? code : undefined;
}

/** The request was certainly not executed, and another server may execute it. */
export function wasNotReached(error: unknown): boolean {
  const { details = "" } = error as GrpcError;
  return (
    codeOf(error) === CODE.unavailable &&
    /No connection established|no leader|ECONNREFUSED|Name resolution failed/.test(details)
  );
}

/** The connection broke under the request: whether it was executed is not known. */
export function isBroken(error: unknown): boolean {
  return codeOf(error) === CODE.unavailable && !wasNotReached(error);
}

/** Users or roles have changed since a token was signed, or while a request was under way. */
const OVERTAKEN = /revision of auth store is old/;

/** It was refused because of its token: servers forget tokens, and may hold old ones to be void. */
export function isVoid(error: unknown): boolean {
  const { details = "" } = error as GrpcError;
  return codeOf(error) === CODE.unauthenticated || OVERTAKEN.test(details);
}

export function etcdError(error: unknown, where: string): LockError {
  if (isLockError(error)) return error;
  const code = codeOf(error);
  const { details } = error as GrpcError;
  const said = plainText(details || asError(error).message);
  // The library names what it has to add, also if that is nothing.
  const text = said.replace(/\.? Resolution note: *$/, "").replace(/\.$/, "");
  const forTls = code === CODE.unavailable ? tlsAdvice(text) : undefined;
  const advice = forTls?.advice ?? ADVICE.find(([pattern]) => pattern.test(text))?.[1];
  const full = code === CODE.resourceExhausted && /space exceeded/.test(text);
  const isFinal = full || forTls?.passes === false || (code !== undefined && FINAL.has(code));
  const retryable = OVERTAKEN.test(text) || !isFinal;
  return backendError(`etcd at ${where}: ${text}${advice === undefined ? "" : `. ${advice}`}`, {
    retryable,
    cause: error,
  });
}

export function closedError(): LockError {
  return new LockError("closed", "the connection to etcd is closed.");
}
