import { createHash } from "node:crypto";
import { onAbort } from "../core/abort.js";
import { acquire } from "../core/acquire.js";
import { WHOLE } from "../core/claim.js";
import type { Connection } from "../core/connection.js";
import { type ClaimView, viewOf } from "../core/inspect.js";
import { type ClaimLease, Lease, SharedLease } from "../core/lease.js";
import { canonicalName, canonicalPrefix } from "../core/names.js";
import { LONGEST_NOTE, readOptions } from "../core/options.js";
import { forceAhead } from "./force-release.js";
import { inOrderOf } from "./in-order.js";
import { needsQueue, type Times } from "./lock-options.js";
import { runHeld } from "./run.js";
import { readRequest, type WebLockMode, type WebLockOptions, type WebRequest } from "./web-request.js";

export type { WebLockMode, WebLockOptions } from "./web-request.js";

/** As `Lock` of the platform. */
export interface WebLock {
  readonly name: string;
  readonly mode: WebLockMode;
}

/** As `LockInfo` of the platform; `clientId` is the owner's instance. */
export interface WebLockInfo extends WebLock {
  readonly clientId: string;
}

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

  request<T>(name: string, callback: WebLockCallback<T>): Promise<Awaited<T>>;
  request<T>(name: string, options: WebLockOptions, callback: WebLockCallback<T>): Promise<Awaited<T>>;
  async request<T>(name: string, ...args: readonly unknown[]): Promise<Awaited<T>> {
    const { options, callback } = readRequest<WebLockCallback<T>>(name, args);
    options.signal?.throwIfAborted();
    const lease = await this.#enter(options);
    if (lease === undefined) return await callback(null);
    return held(lease, () => callback(Object.freeze({ name: options.name, mode: options.mode })));
  }

  async query(): Promise<{ held: WebLockInfo[]; pending: WebLockInfo[] }> {
    const connection = this.#connection;
    connection.assertNotClosed();
    const held: WebLockInfo[] = [];
    const pending: WebLockInfo[] = [];
    for await (const record of connection.backend.list({ prefix: canonicalPrefix("", this.#scope) })) {
      const { holders, waiters } = viewOf(record);
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

  async #enter(request: WebRequest): Promise<ClaimLease | undefined> {
    const { name, mode, ifAvailable, steal, signal } = request;
    const connection = this.#connection;
    const full = this.#fullName(name);
    const weight = mode === "shared" ? 1 : WHOLE;
    const note = noteOf(name);
    const wait = { wait: ifAvailable ? 0 : Infinity, note };
    const ask = readOptions(
      { name: full, kind: "web", weight, capacity: WHOLE },
      signal === undefined ? wait : { ...wait, signal },
      { ...this.#times, reentrant: false, maxWaiters: undefined },
    );
    // Whoever takes it away stands at the end of the line first, so that tokens never go back.
    const takeAway = (ticket: bigint) =>
      connection.inBackground(forceAhead(connection, full, ticket, { reason: STOLEN }));
    const hold = await inOrderOf(connection).enter(full, signal, (onAnswer) =>
      acquire(connection, { ...ask, onAnswer, onWaiting: steal ? takeAway : undefined }),
    );
    if (hold === undefined) return undefined;
    // Outside every call chain: whoever asks again inside waits, as it does on the platform.
    return mode === "shared" ? new SharedLease(hold, undefined) : new Lease(hold, undefined);
  }
}

/** As much of the name as a note can hold: some characters take six in JSON. */
function noteOf(name: string): string {
  for (let shown = name.slice(0, LONGEST_NOTE); ; shown = shown.slice(0, -LONGEST_NOTE / 10)) {
    const note = JSON.stringify({ web: shown });
    if (note.length <= LONGEST_NOTE) return note;
  }
}

/** As on the platform, the request fails at once when its lock is broken, whatever its callback still does. */
function held<T>(lease: ClaimLease, work: () => T): Promise<Awaited<T>> {
  return new Promise((resolve, reject) => {
    onAbort(lease.signal, () => reject(broken(lease.signal.reason)));
    let own = false;
    const working = async (): Promise<Awaited<T>> => {
      try {
        return await work();
      } catch (error) {
        own = true;
        throw error;
      }
    };
    // The callback's own error may be the loss of something else.
    runHeld(lease, working).then(resolve, (error: unknown) => reject(own ? error : broken(error)));
  });
}

function broken(cause: unknown): DOMException {
  const why = cause instanceof Error ? cause.message : String(cause);
  return Object.assign(new DOMException(why, "AbortError"), { cause });
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
