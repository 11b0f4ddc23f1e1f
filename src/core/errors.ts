import type { ClaimView, DeadlockStep } from "./claim.js";
import { decimalJson, plainMessage, plainText } from "./plain-text.js";

/**
 * What kind of error it is. New codes may be added in a minor version: keep a default branch.
 *
 * - `timeout`: another holder had the lock for all of `wait`
 * - `lost`: the lease ended before it was released
 * - `self-deadlock`: this call chain holds the lock already, and would wait for itself
 * - `capacity-mismatch`: the name is in use with another number of permits, or as another kind of lock
 * - `upgrade`: a call chain that reads wants to write
 * - `queue-full`: `maxWaiters` are waiting already
 * - `conflict`: other writers of a cell were always faster
 * - `once-mismatch`: the key of `once` was used with another fingerprint
 * - `once-failed`: the function of `once` has failed before, and that is what was to be remembered
 * - `unsupported`: the engine cannot promise what was asked for, or may not be used as it is set up
 * - `invalid-name`, `invalid-option`: a mistake in the call; nothing was asked of the engine
 * - `backend`: the engine failed or did not answer; never used for contention
 * - `closed`: the connection is closed, or the lease was released
 * - `stale-token`: a fence has seen a newer holder
 * - `missing-token`, `invalid-token`: a request has no fencing token, or one that cannot be read
 */
export type LockErrorCode =
  | "timeout"
  | "lost"
  | "self-deadlock"
  | "capacity-mismatch"
  | "upgrade"
  | "queue-full"
  | "conflict"
  | "once-mismatch"
  | "once-failed"
  | "unsupported"
  | "invalid-name"
  | "invalid-option"
  | "backend"
  | "closed"
  | "stale-token"
  | "missing-token"
  | "invalid-token";

/**
 * Why a lease ended before its holder gave it back. In each case: stop the work, and let the token refuse what is under way.
 *
 * - `expired`: the engine could not be reached for too long, or the fixed time or `maxHold` is over
 * - `taken`: the engine no longer has the claim, as after a flush or a failover
 * - `forced`: an operator took it away
 * - `paused`: this process did not run for too long: a pause, a blocked event loop, a machine that slept
 * - `session`: the session with the server is over, where claims live by one
 * - `closed`: the connection was closed while the lock was held
 */
export type Loss = "expired" | "taken" | "forced" | "paused" | "session" | "closed";

const BRAND = Symbol.for("locktender.LockError");

export interface LockErrorOptions {
  readonly name?: string | undefined;
  readonly retryable?: boolean;
  readonly cause?: unknown;
}

/**
 * Every error of this package. `isLockError` knows it across copies of the package, which `instanceof` does not. Names and
 * notes of other programs are escaped in its message, and stand in its fields as they were.
 */
export class LockError extends Error {
  // Written out here and below, because bundlers shorten the names of classes.
  static override readonly name: string = "LockError";
  /** What kind of error it is: the text of the message may change, the code does not. */
  readonly code: LockErrorCode;
  /** The name of the lock, where there is one. */
  readonly lock: string | undefined;
  /** Whether the same call may succeed later without anything being changed. */
  readonly retryable: boolean;

  constructor(code: LockErrorCode, message: string, options: LockErrorOptions = {}) {
    super(plainMessage(message), "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.lock = options.name;
    this.retryable = options.retryable ?? false;
    Object.defineProperty(this, BRAND, { value: true });
  }

  /** The name of its class. */
  override get name(): string {
    return this.constructor.name;
  }

  /** For logs. Tokens are decimal strings there, because JSON has no `bigint`. */
  toJSON(): Record<string, unknown> {
    const { name, message } = this;
    const tokens = TOKENS.flatMap((key) => (key in this ? [[key, partOf(this, key)]] : []));
    return { name, message, ...decimalJson({ ...this, ...Object.fromEntries(tokens) }) };
  }
}

const TOKENS = ["token", "highest"] as const;

/** Not enumerable: a logger that copies an error field by field would write a bigint as an inexact number, or throw. */
function setTokens(error: LockError, tokens: Partial<Record<(typeof TOKENS)[number], bigint>>): void {
  for (const [key, value] of Object.entries(tokens)) Object.defineProperty(error, key, { value });
}

/** Another holder had the lock for all of `wait`. The message names the holders, and so do the fields. */
export class LockTimeoutError extends LockError {
  static override readonly name = "LockTimeoutError";
  declare readonly code: "timeout";
  /** The holders, as far as the engine could still be asked. */
  readonly blockers: readonly ClaimView[];
  /** The position in the queue when the wait ended (1 is next), if it was in the queue. */
  readonly position: number | undefined;
  /** How long the caller has waited. */
  readonly waitedMs: number;
  /** Which claims wait for each other, if none of them can go on. */
  readonly deadlock: readonly DeadlockStep[] | undefined;

  constructor(
    name: string,
    message: string,
    details: {
      blockers: readonly ClaimView[];
      position: number | undefined;
      waitedMs: number;
      deadlock?: readonly DeadlockStep[] | undefined;
    },
  ) {
    super("timeout", message, { name, retryable: true });
    this.blockers = details.blockers;
    this.position = details.position;
    this.waitedMs = details.waitedMs;
    this.deadlock = details.deadlock;
  }
}

/**
 * The lease ended before its holder gave it back: the reason of `lease.signal`, and what `run` rejects with. What the work
 * has written may stand beside that of the next holder, unless a fence has refused it.
 */
export class LeaseLostError extends LockError {
  static override readonly name = "LeaseLostError";
  declare readonly code: "lost";
  /** Why it was lost. */
  readonly loss: Loss;
  /** The token of the lease that was lost. */
  declare readonly token: bigint;
  /** What the operator said, if the lease was forced away. */
  readonly reason: string | undefined;
  /** The operator that took it away, if it said so. */
  readonly by: string | undefined;

  constructor(
    name: string,
    message: string,
    details: { loss: Loss; token: bigint; reason?: string | undefined; by?: string | undefined },
  ) {
    super("lost", message, { name, retryable: true });
    this.loss = details.loss;
    setTokens(this, { token: details.token });
    this.reason = details.reason;
    this.by = details.by;
  }
}

/** The name is in use with another number of permits, or as another kind of lock. `semaphore.resize` changes the number. */
export class CapacityMismatchError extends LockError {
  static override readonly name = "CapacityMismatchError";
  declare readonly code: "capacity-mismatch";
  /** The number of permits in force; `undefined` if the name is in use as a mutex or a read-write lock. */
  readonly permits: number | undefined;

  constructor(message: string, details: { name: string; permits: number | undefined }) {
    super("capacity-mismatch", message, { name: details.name });
    this.permits = details.permits;
  }
}

/** What the lock protects has seen a newer holder, so nothing was written. Roll back, and take the lock anew. */
export class StaleTokenError extends LockError {
  static override readonly name = "StaleTokenError";
  declare readonly code: "stale-token";
  /** What was to be written; the name of the lock, unless it was given another one. */
  readonly resource: string;
  /** The token that was refused. */
  declare readonly token: bigint;
  /** The newest token that the resource has seen. */
  declare readonly highest: bigint;

  constructor(name: string, details: { resource: string; token: bigint; highest: bigint }) {
    const { resource, token, highest } = details;
    const message = `the token ${token} of "${name}" is stale: "${resource}" has seen ${highest}
  another holder has been let in since, so nothing was written
  roll back, stop what this lease was for, and take the lock anew`;
    super("stale-token", message, { name });
    this.resource = resource;
    setTokens(this, { token, highest });
  }
}

interface ErrorByCode {
  "capacity-mismatch": CapacityMismatchError;
  timeout: LockTimeoutError;
  lost: LeaseLostError;
  "stale-token": StaleTokenError;
}

/**
 * Recognises our errors also when they come from another copy of this package.
 *
 * @example
 * ```ts
 * import { isLockError } from "locktender";
 *
 * try {
 *   await locks.mutex("report").run({ wait: "5s" }, () => work());
 * } catch (error) {
 *   if (!isLockError(error, "timeout")) throw error;
 *   console.log(error.blockers);
 * }
 * ```
 */
export function isLockError(error: unknown): error is LockError;
/** Recognises our errors of this code also when they come from another copy of this package, and narrows the type. */
export function isLockError<C extends LockErrorCode>(
  error: unknown,
  code: C,
): error is C extends keyof ErrorByCode ? ErrorByCode[C] : LockError & { readonly code: C };
export function isLockError(error: unknown, code?: LockErrorCode): boolean {
  if (partOf(error, BRAND) === undefined) return false;
  return code === undefined || partOf(error, "code") === code;
}

/** The engine was away for a moment, so that it is worth asking again. */
export function isOutage(error: unknown): error is LockError {
  return isLockError(error, "backend") && error.retryable;
}

/** A mistake in a call: an invalid option value. */
export function invalidOption(message: string, name?: string): LockError {
  return new LockError("invalid-option", message, { name });
}

/** The engine failed or could not be reached; never used for contention. */
export function backendError(message: string, options: LockErrorOptions & { retryable: boolean }): LockError {
  return new LockError("backend", message, options);
}

/** A rejected value as an error of ours, whatever a client library threw. */
export function asLockError(error: unknown, what: string): LockError {
  if (isLockError(error)) return error;
  return backendError(`${what}: ${plainText(asError(error).message)}`, { retryable: true, cause: error });
}

/** A part of what a caller brought along. That may be anything, also something that throws when it is looked at. */
export function partOf(object: unknown, name: PropertyKey): unknown {
  if ((typeof object !== "object" && typeof object !== "function") || object === null) return undefined;
  try {
    return Reflect.get(object, name);
  } catch {
    return undefined;
  }
}

/** Whether all of these are there. None of them is called, so nothing happens to an object that is none of ours. */
export function hasMethods(object: unknown, names: readonly string[]): boolean {
  return names.every((name) => typeof partOf(object, name) === "function");
}

/** What was thrown, which may be anything, as an error. */
export function asError(thrown: unknown): Error {
  try {
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  } catch {
    return new Error("something that cannot be shown was thrown");
  }
}
