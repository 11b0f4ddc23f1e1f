import { nowMs } from "../../core/clock.js";
import type { LockError } from "../../core/errors.js";
import { Patience } from "../../core/patience.js";
import type { ServerSettings } from "./address.js";
import type { Driver } from "./driver.js";
import { closedError, explained, lateError } from "./errors.js";
import type { Row, SqlLink, SqlValue } from "./link.js";
import type { Lent, Pool } from "./pool.js";
import type { Routine } from "./routine.js";
import { ensureSchema } from "./schema.js";

const LONGEST_GAP_MS = 30;

const ignore = () => {};

/** The way to a server: a few connections, each request bounded in time, the schema looked at once. */
export class PooledLink<Connection> implements SqlLink {
  readonly renewalsPerCall: number;
  readonly #driver: Driver<Connection>;
  readonly #settings: ServerSettings;
  readonly #patience: Patience;
  #opening: Promise<Pool<Connection>> | undefined;
  #pool: Pool<Connection> | undefined;
  #schema: Promise<void> | undefined;
  #ready = false;
  #closed = false;

  constructor(driver: Driver<Connection>, settings: ServerSettings) {
    this.renewalsPerCall = driver.renewalsPerCall;
    this.#driver = driver;
    this.#settings = settings;
    this.#patience = new Patience(settings.timeoutMs);
  }

  async call(
    routine: Routine,
    values: readonly SqlValue[],
    onSent: () => void = ignore,
  ): Promise<readonly Row[]> {
    if (!this.#ready) await this.#prepared();
    const ask = (connection: Connection) => {
      onSent();
      return this.#driver.call(connection, routine, values);
    };
    let untilMs: number | undefined;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#use(ask);
      } catch (error) {
        const meaning = this.#driver.meaningOf(error);
        // Somebody has dropped the tables: whoever asks next looks at them anew.
        if (meaning === "missing") this.#ready = false;
        // Each of these was refused as a whole, so nothing has been done.
        const mayRetry = meaning === "collision" || meaning === "stale";
        untilMs ??= nowMs() + this.#settings.timeoutMs;
        if (!mayRetry || nowMs() >= untilMs) throw this.#explained(error);
        if (meaning === "collision") await pause(attempt);
      }
    }
  }

  /** A connection for longer than one request. */
  async lend(): Promise<Lent<Connection>> {
    const order = (await this.#opened()).order();
    return this.#patience.bound(order.coming, asIs, () => {
      order.cancel();
      return this.#late(this.#patience);
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    const pool = await this.#opening?.catch(ignore);
    if (!pool) return;
    // It says goodbye to each connection; one that does not answer must not keep us.
    await this.#patience.bound(pool.end(), asIs, () => this.#late(this.#patience)).catch(ignore);
  }

  #prepared(): Promise<void> {
    const use = this.#use.bind(this);
    this.#schema ??= ensureSchema(this.#driver, this.#settings, use)
      .then(() => {
        this.#ready = true;
      })
      .catch((error: unknown) => {
        throw this.#explained(error);
      })
      .finally(() => {
        this.#schema = undefined;
      });
    return this.#schema;
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
      used()?.giveBack(this.#driver.meaningOf(error) === "broken");
      return asIs(error);
    };
    const late = () => {
      cancel();
      used()?.giveBack(true);
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
    return explained(engine, this.#settings.where, error, explain);
  }
}

function asIs(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

function pause(attempt: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(2 * attempt, LONGEST_GAP_MS)));
}
