import { isTimeToRepeat, nowMs } from "../../core/clock.js";
import { asError, isLockError, type LockError } from "../../core/errors.js";
import { startTimer } from "../../core/timer.js";
import { RequestTimeout } from "../../engine-kit/request-timeout.js";
import type { ServerSettings } from "./address.js";
import type { Driver, Meaning, Row, SqlConnection, SqlValue } from "./driver.js";
import { closedError, explained, lateError, ReadOnlyServerError } from "./errors.js";
import { type Lent, ordered, type Pool } from "./pool.js";
import type { Routine } from "./routines.js";
import { ensureSchema, type Use } from "./schema.js";

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
const FREE_TRIES = 64;

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
  #opening: Promise<Pool<Connection>> | undefined;
  #pool: Pool<Connection> | undefined;
  #schema: Promise<void> | undefined;
  #ready = false;
  #closed = false;
  #onMove = ignore;

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
        if (!this.#ready) await this.#prepared();
        return await this.#use(ask);
      } catch (thrown) {
        const wasIdle = thrown instanceof IdleConnectionError;
        const error = wasIdle ? thrown.cause : thrown;
        const meaning = this.#meaningOf(error);
        const isRepeatable = meaning === "broken" && !routine.onlyOnce;
        const isTime = isRepeatable && isTimeToRepeat(startMs, this.#settings.timeoutMs);
        if (isTime && (wasIdle || repeats-- > 0)) continue;
        if (meaning === "missing" || meaning === "read-only") this.#ready = false;
        if (meaning === "read-only") this.#move();
        untilMs ??= nowMs() + this.#settings.timeoutMs;
        const longestMs = LONGEST_PAUSE_MS[meaning];
        if (longestMs === undefined || nowMs() >= untilMs) throw this.#explained(error);
        // A pool of the caller's may have many old connections, each of which has to be found.
        const freeTries = meaning === "read-only" ? Math.min(this.#pool?.idleAtMost ?? 0, FREE_TRIES) : 0;
        const isFree = attempt <= freeTries || (meaning === "stale" && attempt === 1);
        if (!isFree) await pause(attempt - freeTries, longestMs);
      }
    }
  }

  /** Is called when the connections of this moment have turned out to lead to a server that cannot write. */
  onMove(listener: () => void): void {
    this.#onMove = listener;
  }

  /** A connection for longer than one request. */
  async lend(): Promise<Lent<Connection>> {
    return ordered(await this.#opened(), this.#requestTimeout, () => this.#late(this.#requestTimeout));
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

  #prepared(): Promise<void> {
    // It may be the first connection of all that is opened for it.
    const use: Use<Connection> = (work, requestTimeout = this.#openingTimeout) =>
      this.#use(work, requestTimeout);
    this.#schema ??= ensureSchema(this.#driver, this.#settings, use)
      .then(() => {
        this.#ready = true;
      })
      .finally(() => {
        this.#schema = undefined;
      });
    return this.#schema;
  }

  /** The address may lead elsewhere by now: it is looked up anew for each connection that is opened. */
  #move(): void {
    this.#pool?.replace();
    this.#onMove();
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
    const order = (await this.#opened()).order();
    let lent: Lent<Connection> | undefined;
    const done = order.coming.then((one) => {
      lent = one;
      return work(one.connection);
    });
    return this.#bounded(done, requestTimeout, () => lent, order.cancel);
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

  #explained(error: unknown): LockError {
    const { engine, explain } = this.#driver;
    const { where, target } = this.#settings;
    return explained(engine, where, error, explain, target.pool !== undefined);
  }
}

/** Each step makes it likelier that what was in the way has gone. Uneven, so that two processes do not meet again. */
async function pause(attempt: number, longestMs: number): Promise<void> {
  const mostMs = Math.min(2 ** attempt, longestMs);
  const pauseMs = mostMs / 2 + (Math.random() * mostMs) / 2;
  await new Promise((resolve) => startTimer(() => resolve(undefined), pauseMs));
}
