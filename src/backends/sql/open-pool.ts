import { asError } from "../../core/errors.js";
import { RequestTimeout } from "../../engine-kit/request-timeout.js";
import { describeHosts, type Host } from "../../engine-kit/url.js";
import { lateError, ReadOnlyServerError } from "./errors.js";
import { Pool, type PoolMember, type PoolSettings, type StopResult } from "./pool.js";

const ignore = () => {};

/** How long telling the server may take at least: requests may be allowed much less. */
const SHORTEST_STOP_MS = 2_000;

/** The time that stopping a request may take, where a request may take `timeoutMs`. */
export function stopTimeout(timeoutMs: number): RequestTimeout {
  return new RequestTimeout(Math.max(timeoutMs, SHORTEST_STOP_MS));
}

/** As the work settles, or an error when its time is up. */
export function inTime<T>(work: Promise<T>, requestTimeout: RequestTimeout, late = "no answer"): Promise<T> {
  return requestTimeout.bound(work, asError, () => new Error(late));
}

/** Where connections of ours lead, and how many there may be. */
interface OwnPoolSettings extends PoolSettings {
  readonly hosts: readonly Host[];
  readonly connectMs: number;
  /** What to tell the operator if the server says nothing to a new connection. */
  readonly silent?: string;
}

export interface OpeningConnection<Connection> extends PoolMember<Connection> {
  /** Settles when the connection is open, and the server has told whether it is read-only. */
  readonly isReadOnly: Promise<boolean>;
}

/**
 * Connections to the first host that lets us write. One that could write is tried first from then on. All hosts share
 * the time, so that one that is silent does not use it up.
 */
export function ownPool<Connection>(
  settings: OwnPoolSettings,
  open: (host: Host, shareMs: number, lost: () => void) => OpeningConnection<Connection>,
): Pool<Connection> {
  const { engine, hosts, connectMs, silent } = settings;
  const share = new RequestTimeout(Math.ceil(connectMs / hosts.length));
  const openAt = async (host: Host, lost: () => void) => {
    const where = describeHosts({ hosts: [host] });
    // Only a connection that could be opened can be lost.
    const state = { isOpen: false, isLost: false };
    const opening = open(host, share.timeoutMs, () => {
      state.isLost = true;
      if (state.isOpen) lost();
    });
    try {
      const late = () => lateError(engine, where, share.timeoutMs, silent);
      if (await share.bound(opening.isReadOnly, asError, late)) throw new ReadOnlyServerError(engine, where);
    } catch (error) {
      opening.close(true).catch(ignore);
      throw error;
    }
    state.isOpen = true;
    if (state.isLost) lost();
    return opening;
  };
  let first = 0;
  const openFirst = async (lost: () => void) => {
    let failure: unknown;
    for (let tried = 0; tried < hosts.length; tried++) {
      const at = (first + tried) % hosts.length;
      try {
        const opened = await openAt(hosts[at] as Host, lost);
        first = at;
        return opened;
      } catch (error) {
        // That one of them is a replica says more than that others are down.
        if (!(failure instanceof ReadOnlyServerError)) failure = error;
      }
    }
    throw failure;
  };
  return new Pool(settings, openFirst);
}

/** What we use of a pool of the caller's. */
interface BorrowedPool<Connection extends object, Identity> extends PoolSettings {
  readonly callersPoolSize: number;
  connect(): Promise<Connection>;
  /** What the pool keeps, where `connect` only gives something that is wrapped around it. */
  innerOf?(connection: Connection): object;
  /**
   * By what the server knows a connection. It is asked once for each, before its first use; a connection of which it
   * cannot be found out goes back as broken.
   */
  identify(connection: Connection): Promise<Identity>;
  giveBack(connection: Connection, broken: boolean): unknown;
  stop(connection: Connection, identity: Identity, attempt: number): Promise<StopResult>;
}

/** A pool of the caller's, to which each connection goes back after its request. It is not ours to end. */
export function borrowedPool<Connection extends object, Identity>(
  pool: BorrowedPool<Connection, Identity>,
): Pool<Connection> {
  const requestTimeout = new RequestTimeout(pool.timeoutMs);
  const identities = new WeakMap<object, Identity>();
  const borrow = async (_: () => void, isWanted: () => boolean): Promise<PoolMember<Connection>> => {
    const connection = await pool.connect();
    const inner = pool.innerOf?.(connection) ?? connection;
    let isTold = false;
    // Asynchronous, so that what the caller's pool may throw does not end the process.
    const close = async (broken: boolean) => {
      // It is not used again even if its request ends well: what was told to stop it may still be under way.
      await pool.giveBack(connection, broken || isTold);
    };
    try {
      // One that comes too late goes back at once. Bounded, because one that has fallen silent would never go back.
      if (isWanted() && !identities.has(inner)) {
        const identity = inTime(pool.identify(connection), requestTimeout, "the connection does not answer");
        identities.set(inner, await identity);
      }
    } catch (error) {
      close(true).catch(ignore);
      throw error;
    }
    return {
      connection,
      close,
      stop: (attempt) => {
        isTold = true;
        if (!identities.has(inner)) return Promise.resolve("absent");
        return pool.stop(connection, identities.get(inner) as Identity, attempt);
      },
      ref: ignore,
      unref: ignore,
    };
  };
  return new Pool(pool, borrow);
}
