import { asError, backendError, LockError } from "../../core/errors.js";
import { plainText } from "../../core/plain-text.js";
import { tlsAdvice } from "../../engine-kit/tls.js";
import { ERROR } from "./messages.js";

/** On how many sessions one request may be tried, each of which turns out to be over. */
const MOST_SESSIONS = 3;

const PASSES = true;
const STAYS = false;

/** The codes of refusals. What passes may go differently the next time, without any change of settings. */
const MEANING: ReadonlyMap<number, readonly [name: string, passes: boolean, advice?: string]> = new Map([
  [-6, ["Unimplemented", STAYS, "ZooKeeper 3.6 or later is needed."]],
  [-8, ["BadArguments", STAYS]],
  [ERROR.connectionLoss, ["ConnectionLoss", PASSES]],
  [ERROR.noNode, ["NoNode", PASSES]],
  [
    ERROR.noAuth,
    [
      "NoAuth",
      STAYS,
      "Check the user name and the password, and the rights that docs/engines/zookeeper.md lists.",
    ],
  ],
  [ERROR.badVersion, ["BadVersion", PASSES]],
  [-108, ["NoChildrenForEphemerals", STAYS, "Something in the way of the prefix is an ephemeral node."]],
  [ERROR.nodeExists, ["NodeExists", PASSES]],
  [ERROR.sessionExpired, ["SessionExpired", PASSES]],
  [-114, ["InvalidACL", STAYS, "The option acl says creator, but the url has no user and password."]],
  [ERROR.authFailed, ["AuthFailed", STAYS, "The servers do not take these credentials."]],
  [ERROR.sessionMoved, ["SessionMoved", PASSES]],
  [
    ERROR.authRequired,
    ["SessionClosedRequireAuth", STAYS, "The servers want a user: zookeeper://user:password@host."],
  ],
  [-125, ["QuotaExceeded", STAYS]],
  [-127, ["Throttled", PASSES]],
]);

/** The code that a server has refused with. */
class Refusal extends Error {
  constructor(
    readonly code: number,
    name: string,
  ) {
    super(name);
  }
}

export function refusal(code: number, where: string): LockError {
  const [name, passes, advice] = MEANING.get(code) ?? [`error ${code}`, STAYS];
  return backendError(`ZooKeeper at ${where}: ${name}${advice === undefined ? "" : `. ${advice}`}`, {
    retryable: passes,
    cause: new Refusal(code, name),
  });
}

/** The root of the tree is always there: a server that misses it will not get it by being asked again. */
export function noTree(path: string, error: unknown): LockError {
  const { message } = error as LockError;
  const text = `${message}, for "${path}", which needs nothing above it. Is this a ZooKeeper server?`;
  return backendError(text, { retryable: false, cause: error });
}

/** `undefined` if no server has refused it. */
export function refusalCode(error: unknown): number | undefined {
  const cause = error instanceof LockError ? error.cause : undefined;
  return cause instanceof Refusal ? cause.code : undefined;
}

/** Runs on if it was one of these refusals; anything else is thrown. */
export function unless(...codes: readonly number[]): (error: unknown) => undefined {
  return (error) => {
    const code = refusalCode(error);
    if (code === undefined || !codes.includes(code)) throw error;
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
function reachedNoServer(error: unknown): boolean {
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
  const text = `ZooKeeper at ${where}: ${message.replace(/\.$/, "")}. ${forTls.advice}`;
  return backendError(text, { retryable: forTls.passes, cause: error });
}

export function closedError(): LockError {
  return new LockError("closed", "the connection to ZooKeeper is closed.");
}

/**
 * A session that turns out to be over leaves nothing: the next one is asked, or a claim is known to be gone. And
 * what was written to a connection that the server had closed long before, while we did not run, reached no server.
 */
export function againIfExpired<T>(act: () => Promise<T>): Promise<T> {
  return againIf((error) => isExpired(error) || reachedNoServer(error), act);
}

/** For what must not be done twice: requests that were sent before on such a connection may have been executed. */
export function againIfRefused<T>(act: () => Promise<T>): Promise<T> {
  return againIf(isExpired, act);
}

function isExpired(error: unknown): boolean {
  return refusalCode(error) === ERROR.sessionExpired;
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
