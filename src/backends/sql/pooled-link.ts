import { nowMs } from "../../core/clock.js";
import { isLockError, type LockError } from "../../core/errors.js";
import { Patience } from "../../core/patience.js";
import { asError } from "../../core/shape.js";
import { startTimer } from "../../core/timer.js";
import type { ServerSettings } from "./address.js";
import type { Driver, Meaning } from "./driver.js";
import { closedError, explained, lateError, ReadOnlyServerError } from "./errors.js";
import type { Row, SqlLink, SqlValue } from "./link.js";
import { type Lent, ordered, type Pool } from "./pool.js";
import type { Routine } from "./routine.js";
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

/** The way to a server: a few connections, each request bounded in time, the schema looked at once. */
export class PooledLink<Connection> implements SqlLink {
  readonly renewalsPerCall: number;
  readonly #driver: Driver<Connection>;
  readonly #settings: ServerSettings;
  readonly #patience: Patience;
  readonly #openingPatience: Patience;
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
    this.#patience = new Patience(settings.timeoutMs);
    this.#openingPatience = new Patience(Math.max(settings.timeoutMs, settings.connectMs));
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
    let untilMs: number | undefined;
    for (let attempt = 1; ; attempt++) {
      try {
        if (!this.#ready) await this.#prepared();
        return await this.#use(ask);
      } catch (error) {
        const meaning = this.#meaningOf(error);
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
    return ordered(await this.#opened(), this.#patience, () => this.#late(this.#patience));
  }

  async close(): Promise<void> {
    this.#closed = true;
    const pool = await this.#opening?.catch(ignore);
    if (!pool) return;
    // It says goodbye to each connection; one that does not answer must not keep us.
    await this.#patience.bound(pool.end(), asError, () => this.#late(this.#patience)).catch(ignore);
  }

  #prepared(): Promise<void> {
    // It may be the first connection of all that is opened for it.
    const use: Use<Connection> = (work, patience = this.#openingPatience) => this.#use(work, patience);
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
  #use<T>(work: (connection: Connection) => Promise<T>, patience = this.#patience): Promise<T> {
    const free = this.#pool?.take();
    if (free === undefined) return this.#useNext(work, patience);
    return this.#bounded(work(free.connection), patience, () => free);
  }

  async #useNext<T>(work: (connection: Connection) => Promise<T>, patience: Patience): Promise<T> {
    const order = (await this.#opened()).order();
    let lent: Lent<Connection> | undefined;
    const done = order.coming.then((one) => {
      lent = one;
      return work(one.connection);
    });
    return this.#bounded(done, patience, () => lent, order.cancel);
  }

  /** Errors are the library's own, except for those of time. */
  #bounded<T>(
    work: Promise<T>,
    patience: Patience,
    used: () => Lent<Connection> | undefined,
    cancel = ignore,
  ): Promise<T> {
    const failed = (error: unknown) => {
      const meaning = this.#meaningOf(error);
      used()?.giveBack(meaning === "broken" || meaning === "read-only");
      return asError(error);
    };
    const late = () => {
      cancel();
      used()?.abandon(work);
      return this.#late(patience);
    };
    return patience.bound(work, failed, late).then((result) => {
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

  #late({ timeoutMs }: Patience): LockError {
    return lateError(this.#driver.engine, this.#settings.where, timeoutMs);
  }

  #explained(error: unknown): LockError {
    const { engine, explain } = this.#driver;
    const { where, target } = this.#settings;
    return explained(engine, where, error, explain, target.pool !== undefined);
  }
}

/** Each step makes it likelier that what was in the way has gone. Uneven, so that two do not meet again. */
async function pause(attempt: number, longestMs: number): Promise<void> {
  const mostMs = Math.min(2 ** attempt, longestMs);
  const pauseMs = mostMs / 2 + (Math.random() * mostMs) / 2;
  await new Promise((resolve) => startTimer(() => resolve(undefined), pauseMs));
}
