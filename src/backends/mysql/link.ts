import { Patience } from "../../core/patience.js";
import type { Row, SqlLink, SqlValue } from "../sql/link.js";
import type { Routine } from "../sql/routine.js";
import {
  type MysqlConnectionLike,
  type MysqlPromisePool,
  type MysqlQuery,
  type OwnPool,
  openPool,
  promisePool,
} from "./client.js";
import { callOf } from "./dialect.js";
import { closedError, explain, isBroken, isCollision, isMissing, lateError } from "./errors.js";
import type { MysqlSettings } from "./options.js";
import { ensureSchema } from "./schema.js";

const ATTEMPTS = 20;
const LONGEST_GAP_MS = 30;
/** Making tables waits for all others who want to make them. */
const SCHEMA_TIMEOUT_MS = 30_000;

const ignore = () => {};

/** The way to the server: a few connections, each request bounded in time, the schema looked at once. */
export class MysqlLink implements SqlLink {
  readonly renewalsPerCall = 100;
  readonly #where: string;
  readonly #settings: MysqlSettings;
  readonly #patience: Patience;
  readonly #calls = new Map<Routine, string>();
  #pool: Promise<MysqlPromisePool> | undefined;
  #own: OwnPool | undefined;
  #schema: Promise<void> | undefined;
  #ready = false;
  #closed = false;

  constructor(settings: MysqlSettings) {
    const { address } = settings;
    this.#where = address === undefined ? "the given pool" : `${address.host}:${address.port}`;
    this.#settings = settings;
    this.#patience = new Patience(settings.timeoutMs);
  }

  async call(routine: Routine, values: readonly SqlValue[]): Promise<readonly Row[]> {
    if (!this.#ready) await this.#prepared();
    // The library would send a bigint as a number that is not exact.
    const sent = values.map((value) => (typeof value === "bigint" ? String(value) : value));
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#run({ sql: this.#textOf(routine), values: sent });
      } catch (error) {
        if (isMissing(error)) this.#ready = false;
        if (!isCollision(error) || attempt === ATTEMPTS) throw explain(error, this.#where);
        await pause(attempt);
      }
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#pool?.catch(ignore);
    // It says goodbye to each connection; one that does not answer must not keep us.
    const ended = this.#own?.end().catch(ignore);
    if (ended !== undefined) await this.#patience.bound(ended, asIs, closedError).catch(ignore);
  }

  #run(query: MysqlQuery): Promise<readonly Row[]> {
    return this.#use(async (connection) => {
      const [results] = await connection.execute({ ...query, rowsAsArray: false });
      return rowsOf(results);
    }, this.#patience);
  }

  #textOf(routine: Routine): string {
    const known = this.#calls.get(routine);
    if (known !== undefined) return known;
    const text = callOf(this.#settings.prefix, routine);
    this.#calls.set(routine, text);
    return text;
  }

  #open(): Promise<MysqlPromisePool> {
    if (this.#closed) return Promise.reject(closedError());
    this.#pool ??= this.#openNow();
    return this.#pool;
  }

  async #openNow(): Promise<MysqlPromisePool> {
    const { address, pool, connections, timeoutMs } = this.#settings;
    if (pool !== undefined) return promisePool(pool);
    if (address === undefined) throw new Error("neither an address nor a pool");
    this.#own = await openPool(address, connections, timeoutMs);
    return this.#own;
  }

  #prepared(): Promise<void> {
    const { prefix, mayCreate } = this.#settings;
    const patience = new Patience(SCHEMA_TIMEOUT_MS);
    this.#schema ??= ensureSchema(
      { where: this.#where, prefix, mayCreate },
      (sql) => this.#run({ sql }),
      (work) => this.#use(work, patience),
    )
      .then(() => {
        this.#ready = true;
      })
      .catch((error: unknown) => {
        throw explain(error, this.#where);
      })
      .finally(() => {
        this.#schema = undefined;
      });
    return this.#schema;
  }

  /** Work on one connection. One that broke, or that did not answer in time, is not used again. */
  async #use<T>(work: (connection: MysqlConnectionLike) => Promise<T>, patience: Patience): Promise<T> {
    const pool = await this.#open();
    let connection: MysqlConnectionLike | undefined;
    let over = false;
    const end = (destroy: boolean) => {
      over = true;
      const used = connection;
      connection = undefined;
      if (destroy) used?.destroy();
      else used?.release();
    };
    const done = async (): Promise<T> => {
      const free = await pool.getConnection();
      if (over) {
        free.release();
        throw lateError(patience.timeoutMs, this.#where);
      }
      connection = free;
      try {
        const result = await work(free);
        end(false);
        return result;
      } catch (error) {
        end(isBroken(error));
        throw error;
      }
    };
    return patience.bound(done(), asIs, () => {
      end(true);
      return lateError(patience.timeoutMs, this.#where);
    });
  }
}

/** A query answers with rows; a call with a list of sets of rows, and a header at the end. */
export function rowsOf(results: unknown): readonly Row[] {
  if (!Array.isArray(results)) return [];
  const sets = results.filter((set): set is Row[] => Array.isArray(set));
  return sets.length > 0 ? sets.flat() : (results as Row[]);
}

function asIs(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

function pause(attempt: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(2 * attempt, LONGEST_GAP_MS)));
}
