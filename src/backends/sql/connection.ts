import { isTimeToRepeat, nowMs } from "../../core/clock.js";
import { SingleFlight } from "../../core/concurrency.js";
import { asError, isLockError, type LockError } from "../../core/errors.js";
import { delay } from "../../core/timer.js";
import { countIn } from "../../engine-kit/replies.js";
import { RequestTimeout } from "../../engine-kit/request-timeout.js";
import {
  closedError,
  type Explanation,
  explained,
  lateError,
  type Meaning,
  missingSchema,
  ReadOnlyServerError,
  tooNewError,
} from "./errors.js";
import type { ServerSettings } from "./options.js";
import type { Lent, Pool } from "./pool.js";
import { type Row, readBy } from "./replies.js";
import { REVISION, type Routine, type SqlValue } from "./routines.js";

/** The way to a database. Everything is bounded in time, and fails with a `LockError`. */
export interface SqlConnection {
  /** How many claims are renewed by one call. */
  readonly renewalsPerCall: number;
  /** One round trip, one transaction. `onSent` is called when a connection was free for it. */
  call(routine: Routine, values: readonly SqlValue[], onSent?: () => void): Promise<readonly Row[]>;
  close(): Promise<void>;
}

/** All that a database has to bring along, besides its dialect of SQL, to be reached through connections. */
export interface Driver<Connection> {
  /** What it is called in messages. */
  readonly engine: string;
  readonly renewalsPerCall: number;
  open(): Promise<Pool<Connection>>;
  /** One round trip, one transaction. */
  call(connection: Connection, routine: Routine, values: readonly SqlValue[]): Promise<readonly Row[]>;
  meaningOf(error: unknown): Meaning;
  explain(error: unknown): Explanation;
  readonly schema: SchemaDriver<Connection>;
}

export interface SchemaDriver<Connection> {
  /** Throws if this server or connection cannot keep what we promise. One to a read-only server is not used again. */
  refuseUnusable(connection: Connection, where: string): Promise<void>;
  /**
   * The highest `breaking` revision of all releases that have made their routines here; an error that means
   * "missing" if this release has not.
   */
  breaking(connection: Connection): Promise<unknown>;
  /** Makes what is missing, one process at a time; before that, `check` is given the same revision, or 0. */
  create(connection: Connection, check: (breaking: unknown) => void): Promise<void>;
  /** For errors: what is not there, which module prints the migration, and what a newer release has changed. */
  readonly lack: string;
  readonly module: string;
  readonly tables: string;
}

/**
 * The longest pause before the next try, after errors that make one worth while: each of them is a refusal as a
 * whole, so nothing has been done. An address takes a while to move to another server.
 */
const LONGEST_PAUSE_MS: Readonly<Partial<Record<Meaning, number>>> = {
  collision: 30,
  stale: 30,
  missing: 250,
  "read-only": 500,
};

/** So often, at most, the next connection of a caller's pool is tried at once, if the last one led to a read-only server. */
const TRIES_AT_ONCE = 64;

/** Making tables waits for all other processes that want to make them. */
const MAKING_MS = 30_000;

const ignore = () => {};

/** A connection that lay idle has broken under its request: the server may have closed it long ago, and the others, too. */
class IdleConnectionError extends Error {}

/** The way to a server: a few connections, each request bounded in time, the schema looked at once. */
export class PooledConnection<Connection> implements SqlConnection {
  readonly renewalsPerCall: number;
  readonly #driver: Driver<Connection>;
  readonly #settings: ServerSettings;
  readonly #requestTimeout: RequestTimeout;
  readonly #openingTimeout: RequestTimeout;
  readonly #preparing = new SingleFlight<void>();
  #opening: Promise<Pool<Connection>> | undefined;
  #pool: Pool<Connection> | undefined;
  #ready = false;
  #closed = false;
  #onReadOnly = ignore;

  constructor(driver: Driver<Connection>, settings: ServerSettings) {
    this.renewalsPerCall = driver.renewalsPerCall;
    this.#driver = driver;
    this.#settings = settings;
    this.#requestTimeout = new RequestTimeout(settings.timeoutMs);
    this.#openingTimeout = new RequestTimeout(Math.max(settings.timeoutMs, settings.connectMs));
  }

  async call(
    routine: Routine,
    values: readonly SqlValue[],
    onSent: () => void = ignore,
  ): Promise<readonly Row[]> {
    const ask = (connection: Connection) => {
      onSent();
      return this.#driver.call(connection, routine, values);
    };
    const startMs = nowMs();
    let untilMs: number | undefined;
    // Also a connection that was just being opened may have failed while this process was frozen.
    let repeats = 1;
    for (let attempt = 1; ; attempt++) {
      try {
        if (!this.#ready) await this.#preparing.run(() => this.#prepare());
        return await this.#use(ask);
      } catch (thrown) {
        const wasIdle = thrown instanceof IdleConnectionError;
        const error = wasIdle ? thrown.cause : thrown;
        const meaning = this.#meaningOf(error);
        const isRepeatable = meaning === "broken" && !routine.onlyOnce;
        const isTime = isRepeatable && isTimeToRepeat(startMs, this.#settings.timeoutMs);
        if (isTime && (wasIdle || repeats-- > 0)) continue;
        if (meaning === "missing" || meaning === "read-only") this.#ready = false;
        if (meaning === "read-only") {
          // The address may lead elsewhere by now: it is looked up anew for each connection that is opened.
          this.#pool?.replace();
          this.#onReadOnly();
        }
        untilMs ??= nowMs() + this.#settings.timeoutMs;
        const longestMs = LONGEST_PAUSE_MS[meaning];
        if (longestMs === undefined || nowMs() >= untilMs) {
          throw explained(this.#driver, this.#settings, error);
        }
        // A pool of the caller's may have many old connections, each of which has to be found.
        const triesAtOnce =
          meaning === "read-only" ? Math.min(this.#pool?.oldConnectionsAtMost ?? 0, TRIES_AT_ONCE) : 0;
        const isAtOnce = attempt <= triesAtOnce || (meaning === "stale" && attempt === 1);
        if (!isAtOnce) await pause(attempt - triesAtOnce, longestMs);
      }
    }
  }

  /** Is called when the connections of this moment have turned out to lead to a server that cannot write. */
  onReadOnly(listener: () => void): void {
    this.#onReadOnly = listener;
  }

  /** A connection for longer than one request. */
  async lend(): Promise<Lent<Connection>> {
    const pool = await this.#opened();
    return pool.lend(this.#requestTimeout, () => this.#late(this.#requestTimeout));
  }

  async close(): Promise<void> {
    this.#closed = true;
    const pool = await this.#opening?.catch(ignore);
    if (!pool) return;
    // It closes each connection in order; one that does not answer must not hold up the caller.
    await this.#requestTimeout
      .bound(pool.end(), asError, () => this.#late(this.#requestTimeout))
      .catch(ignore);
  }

  /**
   * Looks whether the routines of this release are there, and makes them if they are missing and may be made. Those
   * of other releases stay: during a rolling deploy both are in use, on the same tables.
   */
  async #prepare(): Promise<void> {
    const { schema } = this.#driver;
    const { where, mayCreate, prefix } = this.#settings;
    const check = (breaking: unknown) => {
      const found = readBy(countIn, breaking);
      if (found > REVISION) throw tooNewError(schema.tables, found, REVISION);
    };
    const isThere = async (connection: Connection): Promise<boolean> => {
      try {
        check(await schema.breaking(connection));
        return true;
      } catch (error) {
        if (this.#meaningOf(error) === "missing") return false;
        throw error;
      }
    };
    // It may be the first connection of all that is opened for it.
    await this.#use((connection) => schema.refuseUnusable(connection, where), this.#openingTimeout);
    if (!(await this.#use(isThere, this.#openingTimeout))) {
      if (!mayCreate) throw missingSchema(schema, prefix);
      await this.#use((connection) => schema.create(connection, check), new RequestTimeout(MAKING_MS));
    }
    this.#ready = true;
  }

  #meaningOf(error: unknown): Meaning {
    if (error instanceof ReadOnlyServerError) return "read-only";
    return isLockError(error) ? "other" : this.#driver.meaningOf(error);
  }

  /** Work on one connection. One that broke, or that did not answer in time, is not used again. */
  #use<T>(work: (connection: Connection) => Promise<T>, requestTimeout = this.#requestTimeout): Promise<T> {
    const free = this.#pool?.take();
    if (free === undefined) return this.#useNext(work, requestTimeout);
    return this.#bounded(work(free.connection), requestTimeout, () => free);
  }

  async #useNext<T>(
    work: (connection: Connection) => Promise<T>,
    requestTimeout: RequestTimeout,
  ): Promise<T> {
    const pending = (await this.#opened()).request();
    let lent: Lent<Connection> | undefined;
    const done = pending.connection.then((one) => {
      lent = one;
      return work(one.connection);
    });
    return this.#bounded(done, requestTimeout, () => lent, pending.cancel);
  }

  /** Errors are the library's own, except for those of time. */
  #bounded<T>(
    work: Promise<T>,
    requestTimeout: RequestTimeout,
    used: () => Lent<Connection> | undefined,
    cancel = ignore,
  ): Promise<T> {
    const failed = (error: unknown) => {
      const meaning = this.#meaningOf(error);
      const lent = used();
      lent?.giveBack(meaning === "broken" || meaning === "read-only");
      if (lent?.wasIdle && meaning === "broken") return new IdleConnectionError("broken", { cause: error });
      return asError(error);
    };
    const late = () => {
      cancel();
      used()?.abandon(work);
      return this.#late(requestTimeout);
    };
    return requestTimeout.bound(work, failed, late).then((result) => {
      used()?.giveBack(false);
      return result;
    });
  }

  async #opened(): Promise<Pool<Connection>> {
    if (this.#closed) throw closedError(this.#driver.engine);
    this.#opening ??= this.#driver.open();
    this.#pool = await this.#opening;
    return this.#pool;
  }

  #late({ timeoutMs }: RequestTimeout): LockError {
    return lateError(this.#driver.engine, this.#settings.where, timeoutMs);
  }
}

/** Each step makes it likelier that what was in the way has gone. Uneven, so that two processes do not meet again. */
function pause(attempt: number, longestMs: number): Promise<void> {
  const mostMs = Math.min(2 ** attempt, longestMs);
  return delay(mostMs / 2 + (Math.random() * mostMs) / 2);
}
