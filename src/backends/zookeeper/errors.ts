import { backendError, LockError } from "../../core/errors.js";
import { plainText } from "../../core/plain-text.js";
import { asError } from "../../core/shape.js";
import { tlsAdvice } from "../../engine-kit/tls.js";
import { ERROR } from "./messages.js";

/** On how many sessions one request may be tried, each of which turns out to be over. */
const MOST_SESSIONS = 3;

const NAMES: ReadonlyMap<number, string> = new Map([
  [-6, "Unimplemented"],
  [-8, "BadArguments"],
  [ERROR.connectionLoss, "ConnectionLoss"],
  [ERROR.noNode, "NoNode"],
  [ERROR.noAuth, "NoAuth"],
  [ERROR.badVersion, "BadVersion"],
  [-108, "NoChildrenForEphemerals"],
  [ERROR.nodeExists, "NodeExists"],
  [ERROR.sessionExpired, "SessionExpired"],
  [-114, "InvalidACL"],
  [ERROR.authFailed, "AuthFailed"],
  [ERROR.sessionMoved, "SessionMoved"],
  [ERROR.authRequired, "SessionClosedRequireAuth"],
  [-125, "QuotaExceeded"],
  [-127, "Throttled"],
]);

const ADVICE: ReadonlyMap<number, string> = new Map([
  [-6, "ZooKeeper 3.6 or later is needed."],
  [
    ERROR.noAuth,
    "Check the user name and the password, and the rights that docs/engines/zookeeper.md lists.",
  ],
  [ERROR.authFailed, "The servers do not take these credentials."],
  [-114, "The option acl says creator, but the url has no user and password."],
  [ERROR.authRequired, "The servers want a user: zookeeper://user:password@host."],
  [-108, "Something in the way of the prefix is an ephemeral node."],
]);

/** It may go differently the next time, without any change of settings. */
const PASSING: ReadonlySet<number> = new Set([
  ERROR.connectionLoss,
  ERROR.sessionExpired,
  ERROR.sessionMoved,
  ERROR.noNode,
  ERROR.nodeExists,
  ERROR.badVersion,
  -127,
]);

/** What a server said no with. */
class Refusal extends Error {
  constructor(
    readonly code: number,
    name: string,
  ) {
    super(name);
  }
}

export function refusal(code: number, where: string): LockError {
  const name = NAMES.get(code) ?? `error ${code}`;
  const advice = ADVICE.get(code);
  return backendError(`ZooKeeper at ${where}: ${name}${advice === undefined ? "" : `. ${advice}`}`, {
    retryable: PASSING.has(code),
    cause: new Refusal(code, name),
  });
}

/** The root of the tree is always there: a server that misses it will not get it by being asked again. */
export function noTree(path: string, error: unknown): LockError {
  const { message } = error as LockError;
  return backendError(
    `${message}, for "${path}", which needs nothing above it. Is this a ZooKeeper server?`,
    {
      retryable: false,
      cause: error,
    },
  );
}

/** The number that a server has refused with, if it was one. */
export function refusalCode(error: unknown): number | undefined {
  const cause = error instanceof LockError ? error.cause : undefined;
  return cause instanceof Refusal ? cause.code : undefined;
}

export function isRefusal(error: unknown, code: number): boolean {
  return refusalCode(error) === code;
}

/** Runs on if it was this refusal; anything else is thrown. */
export function unless(...codes: readonly number[]): (error: unknown) => undefined {
  return (error) => {
    if (!codes.some((code) => isRefusal(error, code))) throw error;
  };
}

/** The connection did not come about, or broke: what was sent may or may not have been executed. */
export function unreachable(where: string, problem: string, cause?: unknown): LockError {
  return backendError(`ZooKeeper at ${where}: ${problem}`, {
    retryable: true,
    ...(cause === undefined ? undefined : { cause }),
  });
}

/** It was written to a connection whose other end was closed already. */
export function reachedNoServer(error: unknown): boolean {
  const cause = error instanceof LockError ? error.cause : undefined;
  return cause instanceof Error && "code" in cause && cause.code === "EPIPE";
}

/** A connection that could not be made, or that broke, for a reason of its own. */
export function failed(where: string, error: unknown): LockError {
  const { code = "" } = error as { code?: string };
  const message = plainText(asError(error).message);
  if (["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"].includes(code)) {
    return unreachable(where, `${code}. Are the servers running, and reachable from here?`, error);
  }
  const forTls = tlsAdvice(message);
  if (forTls === undefined) return unreachable(where, message, error);
  return backendError(`ZooKeeper at ${where}: ${message.replace(/\.$/, "")}. ${forTls.advice}`, {
    retryable: forTls.passes,
    cause: error,
  });
}

export function closedError(): LockError {
  return new LockError("closed", "the connection to ZooKeeper is closed.");
}

/**
 * A session that turns out to be over leaves nothing: the next one is asked, or a claim is known to be gone. And
 * what was written to a connection that the server had closed long before, while we did not run, reached no server.
 */
export async function againIfExpired<T>(act: () => Promise<T>): Promise<T> {
  return againIf((error) => isExpired(error) || reachedNoServer(error), act);
}

/** For what must not be done twice: requests that were sent before on such a connection may have been executed. */
export async function againIfRefused<T>(act: () => Promise<T>): Promise<T> {
  return againIf(isExpired, act);
}

function isExpired(error: unknown): boolean {
  return isRefusal(error, ERROR.sessionExpired);
}

async function againIf<T>(isFutile: (error: unknown) => boolean, act: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await act();
    } catch (error) {
      if (!isFutile(error) || attempt === MOST_SESSIONS) throw error;
    }
  }
}
