import { channel } from "node:diagnostics_channel";
import { LockError, StaleTokenError } from "../core/errors.js";
import { canonicalName, groupOf, type LockName } from "../core/names.js";

/**
 * Whose write it is: a lease, or what has come of it over the wire. Only an exclusive lease has a token;
 * of a lease of `all`, one part is given.
 */
export interface Fenced {
  readonly name: string;
  /** A `bigint`, or its decimal digits, as in the JSON of a lease. */
  readonly token: bigint | string;
  /** Asked first if it is there: a holder that knows that its lease is lost need not ask the resource. */
  assertHeld?(): void;
}

export interface FenceOptions {
  /** What is written to, if it has another name than the lock; each resource has a newest token of its own. */
  readonly resource?: LockName | undefined;
}

/** Which token wants to write to which resource, checked. */
export interface Pass {
  readonly lock: string;
  readonly resource: string;
  readonly token: bigint;
}

/** What is told on the channel `locktender:fence-refused`. */
export interface FenceRefused {
  readonly type: "fence-refused";
  readonly name: string;
  readonly group: string;
  readonly resource: string;
  readonly token: string;
  readonly highest: string;
}

const GREATEST = 2n ** 63n - 1n;
const DIGITS = /^(?:0|[1-9]\d{0,18})$/;
const refused = channel("locktender:fence-refused");

/** Throws if it cannot be meant, or if the lease is known to be lost: the token need not be asked then. */
export function passOf(fenced: Fenced, { resource }: FenceOptions = {}): Pass {
  if (typeof fenced !== "object" || fenced === null) {
    throw invalidToken("a fence needs a lease, or { name, token } of one.");
  }
  const lock = canonicalName(fenced.name);
  if (fenced.token === undefined) {
    throw invalidToken(
      `what was given for "${lock}" has no token. Readers and permits have none, since they shut no other holder out; of several locks as one, give one of its parts.`,
      lock,
    );
  }
  const token = readToken(fenced.token, lock);
  fenced.assertHeld?.();
  return { lock, token, resource: resource === undefined ? lock : canonicalName(resource) };
}

export function readToken(token: unknown, lock?: string): bigint {
  const value = typeof token === "string" && DIGITS.test(token) ? BigInt(token) : token;
  if (typeof value === "bigint" && value >= 0n && value <= GREATEST) return value;
  const shown = typeof token === "string" ? JSON.stringify(token.slice(0, 40)) : String(token);
  throw invalidToken(
    `${shown} is not a token. Give the bigint of the lease, or its decimal digits; a number would have lost some of them.`,
    lock,
  );
}

export function invalidToken(message: string, lock?: string): LockError {
  return new LockError("invalid-token", message, { name: lock });
}

/** Throws if the resource has seen a newer token than this one. The same one may write again. */
export function admit({ lock, resource, token }: Pass, highest: bigint): void {
  if (highest <= token) return;
  if (refused.hasSubscribers) {
    const event: FenceRefused = {
      type: "fence-refused",
      name: lock,
      group: groupOf(lock),
      resource,
      token: String(token),
      highest: String(highest),
    };
    refused.publish(event);
  }
  throw new StaleTokenError(lock, { resource, token, highest });
}
