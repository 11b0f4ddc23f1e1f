import { createHash } from "node:crypto";
import { acquire } from "../core/acquire.js";
import type { AnyLease } from "../core/any-lease.js";
import type { Answer, Gone } from "../core/backend.js";
import { type ClaimView, tokenOf, WHOLE } from "../core/claim.js";
import type { Connection } from "../core/connection.js";
import { viewOf } from "../core/diagnostics/view.js";
import { LeaseLostError } from "../core/errors.js";
import { type ClaimLease, Lease, SharedLease } from "../core/lease.js";
import { canonicalName, canonicalPrefix } from "../core/names.js";
import { LONGEST_NOTE, readOptions } from "../core/options.js";
import { quotedText } from "../core/plain-text.js";
import { chainOf } from "../core/reentrancy.js";
import { onAbort } from "../core/timer.js";
import { forceAhead } from "./force-release.js";
import { type InOrder, inOrderOf, type Turn } from "./in-order.js";
import { runHeld } from "./lockable.js";
import { needsQueue, type Times } from "./mutex.js";

/** As `Lock` of the platform. */
export interface WebLock {
  /** As it was given to `request`. */
  readonly name: string;
  /** As it was given to `request`; `"exclusive"` if nothing was. */
  readonly mode: WebLockMode;
}

/** As `LockInfo` of the platform; `clientId` is the owner's instance. */
export interface WebLockInfo extends WebLock {
  /** The instance of the process that has made the request. */
  readonly clientId: string;
}

/** The work that is done under the lock; `null` if `ifAvailable` was given and the lock is taken. */
export type WebLockCallback<T> = (lock: WebLock | null) => T;

const SCOPE = "web";
const STOLEN = "another request has stolen this lock";

/**
 * The Web Locks API of the platform, across processes and machines. What it does not know, such as a lease that
 * ran out, is told in its own words: the lock is broken, as if it had been stolen.
 */
export class WebLocks {
  readonly #connection: Connection;
  readonly #scope: readonly string[];
  readonly #times: Times;

  /** @internal */
  constructor(connection: Connection, scope: readonly string[], times: Times) {
    needsQueue(connection, SCOPE, "web");
    this.#connection = connection;
    this.#scope = [...scope, SCOPE];
    this.#times = times;
  }

  /**
   * Waits for the lock, without a limit, calls `callback`, and releases the lock when that has settled.
   *
   * @example
   * ```ts
   * await locks.web.request("report", async (lock) => {
   *   await work();
   *   console.log(lock?.name);
   * });
   * ```
   */
  request<T>(name: string, callback: WebLockCallback<T>): Promise<Awaited<T>>;
  /** Asks for the lock in the way that the options say, calls `callback`, and releases the lock when that has settled. */
  request<T>(name: string, options: WebLockOptions, callback: WebLockCallback<T>): Promise<Awaited<T>>;
  async request<T>(name: string, ...args: readonly unknown[]): Promise<Awaited<T>> {
    const { options, callback } = readRequest<WebLockCallback<T>>(name, args);
    const { mode, steal, signal } = options;
    signal?.throwIfAborted();
    const full = this.#fullName(options.name);
    const order = inOrderOf(this.#connection);
    const turn = order.arrive(full, steal);
    const around = chainOf(undefined)?.lease;
    if (around !== undefined) lastInside.set(around, turn);
    try {
      const lease = await this.#enter(options, full, turn);
      await turn.waitToBeFirst();
      if (lease === undefined) return started(() => callback(null));
      if (signal?.aborted) {
        this.#connection.inBackground(lease.abandon());
        throw signal.reason;
      }
      return held(lease, order, () => callback(Object.freeze({ name: options.name, mode })));
    } finally {
      // The callback has been called by now, but has not ended.
      turn.end();
    }
  }

  /**
   * Every Web Lock that is held or waited for, by any process.
   *
   * @example
   * ```ts
   * const { held, pending } = await locks.web.query();
   * console.log(held.length, pending.length);
   * ```
   */
  async query(): Promise<{ held: WebLockInfo[]; pending: WebLockInfo[] }> {
    const connection = this.#connection;
    connection.assertNotClosed();
    await inOrderOf(connection).heard();
    connection.assertNotClosed();
    const held: WebLockInfo[] = [];
    const pending: WebLockInfo[] = [];
    for await (const record of connection.backend.list({ prefix: canonicalPrefix("", this.#scope) })) {
      const { holders, waiters } = viewOf(this.#connection, record);
      held.push(...holders.map(infoOf));
      pending.push(...waiters.map(infoOf));
    }
    return { held, pending };
  }

  /** Names that ours refuses are hashed; and those that look like it, so that the two never meet. */
  #fullName(name: string): string {
    if (name.length <= 100 && !name.startsWith("#")) {
      try {
        return canonicalName([name], this.#scope);
      } catch {
        // Empty, control characters, lone surrogates, or too long.
      }
    }
    const hash = createHash("sha256").update(Buffer.from(name, "utf16le")).digest("base64url");
    return canonicalName([`#${hash}`], this.#scope);
  }

  async #enter(request: WebRequest, full: string, turn: Turn): Promise<ClaimLease | undefined> {
    const { name, mode, ifAvailable, steal, signal } = request;
    const connection = this.#connection;
    const weight = mode === "shared" ? 1 : WHOLE;
    const note = noteOf(name);
    const wait = { wait: ifAvailable ? 0 : Infinity, note };
    const ask = readOptions(
      { name: full, kind: "web", weight, capacity: WHOLE },
      signal === undefined ? wait : { ...wait, signal },
      { ...this.#times, reentrant: false, maxWaiters: undefined },
    );
    const onAnswer = (answer?: Answer) => {
      turn.answered(answer);
      if (!steal || answer?.state !== "waiting") return;
      // A request that steals enters at the end of the queue first, so that tokens never go back.
      connection.inBackground(forceAhead(connection, full, answer.ticket, { reason: STOLEN }));
    };
    const onPositionLost = (gone: Gone, ticket: bigint) => {
      turn.positionLost();
      // On the platform it would have held the lock by then. To steal it back would turn the order around.
      if (steal && gone.loss === "forced") throw broken(stolenFrom(full, ticket, gone));
    };
    await turn.waitToAsk(signal, connection.closing);
    const heldClaim = await acquire(connection, { ...ask, onAnswer, onPositionLost });
    if (heldClaim === undefined) return undefined;
    // Outside every call chain: a request for the same name inside it waits, as it does on the platform.
    return mode === "shared" ? new SharedLease(heldClaim, undefined) : new Lease(heldClaim, undefined);
  }
}

/** The last request that was made inside the callback of that lease. */
const lastInside = new WeakMap<AnyLease, Turn>();

/** As much of the name as a note can hold: some characters take six in JSON. */
function noteOf(name: string): string {
  for (let shown = name.slice(0, LONGEST_NOTE); ; shown = shown.slice(0, -LONGEST_NOTE / 10)) {
    const note = JSON.stringify({ web: shown });
    if (note.length <= LONGEST_NOTE) return note;
  }
}

/** Calls it now, and makes a promise of whatever comes of it. */
async function started<T>(work: () => T): Promise<Awaited<T>> {
  return await work();
}

/** As on the platform, the request fails at once when its lock is broken, whatever its callback still does. */
function held<T>(lease: ClaimLease, order: InOrder, work: () => T): Promise<Awaited<T>> {
  return new Promise((resolve, reject) => {
    onAbort(lease.signal, () => reject(broken(lease.signal.reason)));
    let own = false;
    let released = () => {};
    const working = async (): Promise<Awaited<T>> => {
      try {
        return await work();
      } catch (error) {
        own = true;
        throw error;
      } finally {
        // What the callback asked for comes to the engine before the lock is given back.
        const inside = lastInside.get(lease);
        if (inside !== undefined && order.ordered.has(inside)) await order.heard();
        released = order.releasing();
      }
    };
    // The callback's own error may be the loss of something else.
    runHeld(lease, working)
      .finally(() => released())
      .then(resolve, (error: unknown) => reject(own ? error : broken(error)));
  });
}

function broken(cause: unknown): DOMException {
  const why = cause instanceof Error ? cause.message : String(cause);
  return Object.assign(new DOMException(why, "AbortError"), { cause });
}

function stolenFrom(name: string, ticket: bigint, { reason, by }: Gone): LeaseLostError {
  const token = tokenOf(ticket);
  const message = `lost the lock "${name}" (token ${token}) before the callback was called: ${JSON.stringify(reason)}.`;
  return new LeaseLostError(name, message, { loss: "forced", token, reason, by });
}

function infoOf({ note, mode, owner }: ClaimView): WebLockInfo {
  return { name: shownName(note), mode, clientId: owner.instance };
}

function shownName(note: string): string {
  try {
    return String((JSON.parse(note) as { web?: unknown }).web ?? "");
  } catch {
    return "";
  }
}

/** Whether others may hold the lock meanwhile: `exclusive`, no other; `shared`, others that are `shared`. */
export type WebLockMode = "exclusive" | "shared";

/** As `LockOptions` of the platform: what is not known is ignored, as browsers do. */
export interface WebLockOptions {
  /** `"exclusive"` if not given. */
  mode?: WebLockMode | undefined;
  /** Do not wait: the callback gets `null` if the lock is taken. */
  ifAvailable?: boolean | undefined;
  /** Take the lock away from its holders: their promises are rejected, but their callbacks run on. */
  steal?: boolean | undefined;
  /** Ends the wait with the signal's own reason. Once the lock is held it does nothing. */
  signal?: AbortSignal | undefined;
}

interface WebRequest {
  readonly name: string;
  readonly mode: WebLockMode;
  readonly ifAvailable: boolean;
  readonly steal: boolean;
  readonly signal: AbortSignal | undefined;
}

/** What is asked for, or the error that the specification has for it, in the order in which it looks. */
function readRequest<F>(given: unknown, args: readonly unknown[]): { options: WebRequest; callback: F } {
  const [dictionary, callback] = args.length >= 2 ? args : [{}, args[0]];
  if (typeof callback !== "function") throw new TypeError("request: the callback must be a function.");
  // As the platform does it: a number is a name, too, and a symbol is a TypeError.
  const name = `${given}`;
  if (dictionary !== undefined && dictionary !== null && typeof dictionary !== "object") {
    throw new TypeError("request: the options must be an object.");
  }
  const { mode = "exclusive", ifAvailable, steal, signal } = (dictionary ?? {}) as WebLockOptions;
  if (mode !== "exclusive" && mode !== "shared") {
    throw new TypeError(`request: mode must be "exclusive" or "shared", not ${quotedText(String(mode))}.`);
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new TypeError("request: signal must be an AbortSignal.");
  }
  if (name.startsWith("-")) throw notSupported('names that begin with "-" are reserved');
  if (steal && ifAvailable) throw notSupported("steal and ifAvailable cannot be combined");
  if (steal && mode !== "exclusive") throw notSupported("only an exclusive lock can be stolen");
  if (signal !== undefined && (steal || ifAvailable)) {
    throw notSupported("a signal can be combined with neither steal nor ifAvailable");
  }
  const options = { name, mode, ifAvailable: Boolean(ifAvailable), steal: Boolean(steal), signal };
  return { options, callback: callback as F };
}

function notSupported(message: string): DOMException {
  return new DOMException(`request: ${message}.`, "NotSupportedError");
}
