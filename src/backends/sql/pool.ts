import { asError } from "../../core/errors.js";
import { startTimer } from "../../core/timer.js";
import { RequestTimeout } from "../../engine-kit/request-timeout.js";

/** A connection that a request has for a while. Only the first call of `giveBack` or `abandon` counts. */
export interface Lent<Connection> {
  readonly connection: Connection;
  /** It has lain idle: the server may have closed it long ago. */
  readonly wasIdle?: boolean;
  /** A broken one is not used again. */
  giveBack(broken: boolean): void;
  /**
   * The request on it took too long. The server is told to stop it, and the connection counts as taken until the
   * request has ended: with each retry on a new connection, a server that hangs would soon have none left.
   */
  abandon(ended: Promise<unknown>): void;
}

export interface Order<Connection> {
  readonly coming: Promise<Lent<Connection>>;
  /** The request no longer wants a connection, and is given none. */
  cancel(): void;
}

/** Where connections come from: a few of our own, or a pool of the caller's. */
export interface Pool<Connection> {
  /** One that is free right now: nearly always so, and the quickest way. */
  take(): Lent<Connection> | undefined;
  order(): Order<Connection>;
  /** So many connections that were made earlier may lie in it, each of which may lead to a server that cannot write. */
  readonly idleAtMost: number;
  /** The server behind the connections of this moment cannot write: none of them is used for another request. */
  replace(): void;
  end(): Promise<void>;
}

/** A connection within that time, or the error. */
export function ordered<Connection>(
  pool: Pool<Connection>,
  requestTimeout: RequestTimeout,
  late: () => Error,
): Promise<Lent<Connection>> {
  const order = pool.order();
  return requestTimeout.bound(
    order.coming,
    (error) => error as Error,
    () => {
      order.cancel();
      return late();
    },
  );
}

/**
 * What came of telling the server to stop a request: it was told; it has no such request, because it is another
 * server than before or because the request has ended; or it cannot be reached.
 */
export type Stop = "told" | "absent" | "unreachable";

const ignore = () => {};
const gaveUp = () => new Error("the request has given up");

/** The server is told again after this long, and then after twice as long. */
const FIRST_REPEAT_MS = 100;
/** How long telling the server may take at least: requests may be allowed much less. */
const SHORTEST_STOP_MS = 2_000;

/** The time that stopping a request may take, where a request may take `timeoutMs`. */
export function stopTimeout(timeoutMs: number): RequestTimeout {
  return new RequestTimeout(Math.max(timeoutMs, SHORTEST_STOP_MS));
}

/**
 * Calls `done` as soon as the request has ended, or as soon as it is known that the server does not have it any
 * more (`hasEnded` is false then). Until then the server is told to stop it again and again: a request may be where
 * it cannot be stopped.
 */
export function lookAfter(
  ended: Promise<unknown>,
  stop: (attempt: number) => Promise<Stop>,
  longestMs: number,
  done: (hasEnded: boolean) => void,
): void {
  let over = false;
  const finish = (hasEnded: boolean) => {
    if (!over) done(hasEnded);
    over = true;
  };
  const tell = async (attempt: number): Promise<void> => {
    const answer = await stop(attempt).catch((): Stop => "unreachable");
    if (over) return;
    if (answer !== "told") return finish(false);
    const pauseMs = Math.min(FIRST_REPEAT_MS * 2 ** (attempt - 1), longestMs);
    startTimer(() => void (over || tell(attempt + 1)), pauseMs).unref();
  };
  void tell(1);
  const settled = () => finish(true);
  ended.then(settled, settled);
}

export interface BorrowedPool<Connection> {
  connect(): Promise<Connection>;
  /** What has to be known of a connection before it is used. One of which it cannot be found out goes back as broken. */
  prepare(connection: Connection): Promise<void> | undefined;
  giveBack(connection: Connection, broken: boolean): unknown;
  stop(connection: Connection, attempt: number): Promise<Stop>;
  /** How many of them may be in use at a time. */
  readonly most: number;
  /** How many connections it keeps at most. */
  readonly size: number;
  /** How long a request may take. */
  readonly timeoutMs: number;
}

/** A pool of the caller's. It cannot be told that a connection is not wanted any more, and is not ours to end. */
export function borrowedPool<Connection>(pool: BorrowedPool<Connection>): Pool<Connection> {
  const requestTimeout = new RequestTimeout(pool.timeoutMs);
  const waiting = new Set<() => void>();
  let taken = 0;
  let generation = 0;
  const leave = () => {
    const [next] = waiting;
    if (next === undefined) taken--;
    else {
      waiting.delete(next);
      next();
    }
  };
  /** `onWait` is given what takes the request out of the queue again. */
  const enter = (onWait: (leaveQueue: () => void) => void) => {
    if (taken < pool.most) {
      taken++;
      return Promise.resolve();
    }
    return new Promise<void>((resolve, reject) => {
      const enterNow = () => resolve();
      waiting.add(enterNow);
      onWait(() => {
        if (waiting.delete(enterNow)) reject(gaveUp());
      });
    });
  };
  const handOver = (connection: Connection, broken: boolean) => {
    try {
      const done = pool.giveBack(connection, broken);
      if (done instanceof Promise) done.catch(ignore);
    } catch {
      // The request is over, however the caller's pool takes it. Thrown from here, it would end the process.
    }
  };
  const lend = (connection: Connection): Lent<Connection> => {
    const madeIn = generation;
    let lent = true;
    const first = (act: () => void) => {
      if (lent) act();
      lent = false;
    };
    const giveBack = (broken: boolean) => {
      handOver(connection, broken);
      leave();
    };
    return {
      connection,
      giveBack: (broken) => first(() => giveBack(broken || madeIn !== generation)),
      abandon: (ended) =>
        first(() =>
          lookAfter(
            ended,
            (attempt) => pool.stop(connection, attempt),
            pool.timeoutMs,
            () => giveBack(true),
          ),
        ),
    };
  };
  /** Bounded, because a connection that has fallen silent would never go back to the pool. */
  const prepared = async (connection: Connection): Promise<void> => {
    try {
      const preparing = pool.prepare(connection);
      const silent = () => new Error("the connection does not answer");
      if (preparing !== undefined) await requestTimeout.bound(preparing, asError, silent);
    } catch (error) {
      handOver(connection, true);
      throw error;
    }
  };
  const get = async (
    isWanted: () => boolean,
    onWait: (leaveQueue: () => void) => void,
  ): Promise<Lent<Connection>> => {
    await enter(onWait);
    try {
      if (!isWanted()) throw gaveUp();
      const connection = await pool.connect();
      if (isWanted()) await prepared(connection);
      if (isWanted()) return lend(connection);
      handOver(connection, false);
      throw gaveUp();
    } catch (error) {
      leave();
      throw error;
    }
  };
  return {
    idleAtMost: pool.size,
    take: () => undefined,
    order: () => {
      let wanted = true;
      let leaveQueue = ignore;
      const coming = get(
        () => wanted,
        (leave) => {
          leaveQueue = leave;
        },
      );
      coming.catch(ignore);
      return {
        coming,
        cancel: () => {
          wanted = false;
          leaveQueue();
        },
      };
    },
    // Those that lie idle in it are found one after the other, since each that cannot write is not given back.
    replace: () => {
      generation++;
    },
    end: async () => {},
  };
}
