import { Patience } from "../../core/patience.js";
import type { Row, SqlLink } from "../sql/link.js";
import type { Routine } from "../sql/routine.js";
import { openClient, openPool, type PgPooledClient, type PgPoolLike, type PgQuery } from "./client.js";
import { callOf, rowsOf } from "./dialect.js";
import {
  closedError,
  explain,
  isBroken,
  isCollision,
  isMissing,
  isStale,
  isUnprepared,
  lateError,
} from "./errors.js";
import type { PostgresSettings } from "./options.js";
import { ensureSchema } from "./schema.js";
import type { SmallPool } from "./small-pool.js";

const ATTEMPTS = 5;
const LONGEST_GAP_MS = 20;
/** Making tables waits for all others who want to make them. */
const SCHEMA_TIMEOUT_MS = 30_000;

const ignore = () => {};

/** The way to the server: a few connections, each request bounded in time, the schema looked at once. */
export class PostgresLink implements SqlLink {
  readonly renewalsPerCall = 500;
  readonly where: string;
  readonly #settings: PostgresSettings;
  readonly #patience: Patience;
  readonly #calls = new Map<Routine, string>();
  #pool: Promise<PgPoolLike> | undefined;
  #own: SmallPool | undefined;
  #schema: Promise<void> | undefined;
  #ready = false;
  /** A statement that stays prepared is state of the session: not in a pool of the caller's, or behind a pooler. */
  #prepares: boolean;
  #closed = false;

  constructor(settings: PostgresSettings) {
    const { address } = settings;
    this.where = address === undefined ? "the given pool" : `${address.host}:${address.port}`;
    this.#settings = settings;
    this.#patience = new Patience(settings.timeoutMs);
    this.#prepares = settings.pool === undefined;
  }

  async call(
    routine: Routine,
    values: readonly unknown[],
    onSent: () => void = ignore,
  ): Promise<readonly Row[]> {
    if (!this.#ready) await this.#prepared();
    const text = this.#textOf(routine);
    for (let attempt = 1; ; attempt++) {
      const prepares = this.#prepares;
      // Behind a pooler a name may be known from another client of ours: the same name must mean the same text.
      const name = `${this.#settings.schemaName} ${routine.name}`;
      try {
        const query = prepares ? { text, values, name } : { text, values };
        return rowsOf(routine, await this.run(query, onSent));
      } catch (error) {
        const unprepared = prepares && isUnprepared(error);
        if (unprepared) this.#prepares = false;
        // Somebody has dropped the schema: whoever asks next looks at it anew.
        if (isMissing(error)) this.#ready = false;
        // Each of these was refused as a whole, so nothing has been done.
        const mayRetry = unprepared || isCollision(error) || isStale(error);
        if (!mayRetry || attempt === ATTEMPTS) throw explain(error, this.where);
        if (isCollision(error)) await pause();
      }
    }
  }

  /** One request on a connection of the pool. Errors are the library's own, except for those of time. */
  run(query: PgQuery, onSent: () => void = ignore): Promise<readonly unknown[]> {
    const free = this.#own?.take();
    if (free !== undefined) return this.#runNow(free, query, onSent);
    return this.#use((client) => {
      onSent();
      return client.query(query).then(({ rows }) => rows);
    }, this.#patience);
  }

  /** On a connection of ours that is free: nearly always so, and the quickest way. */
  #runNow(client: PgPooledClient, query: PgQuery, onSent: () => void): Promise<readonly unknown[]> {
    onSent();
    const failed = (error: unknown) => {
      client.release(isBroken(error));
      return asIs(error);
    };
    const late = () => {
      client.release(true);
      return lateError(this.#patience.timeoutMs, this.where);
    };
    return this.#patience.bound(client.query(query), failed, late).then(({ rows }) => {
      client.release();
      return rows;
    });
  }

  /** By a connection of its own, if we may open one: those of the pool may have much to do. */
  async notify(channel: string, payload: string): Promise<void> {
    const query = { text: "SELECT pg_notify($1, $2)", values: [channel, payload] };
    const { address, timeoutMs } = this.#settings;
    if (address === undefined) {
      await this.run(query);
      return;
    }
    const client = await openClient(address, timeoutMs);
    const late = () => lateError(timeoutMs, this.where);
    await this.#patience.bound(client.query(query), asIs, late).finally(() => client.release());
  }

  /** A connection that is kept: one of our own beside the pool, or one of the caller's. */
  async dedicated(): Promise<PgPooledClient> {
    const { address, timeoutMs } = this.#settings;
    if (address !== undefined) return openClient(address, timeoutMs);
    const pool = await this.#open();
    let late = false;
    const coming = pool.connect();
    coming.then((client) => late && client.release(), ignore);
    const giveUp = () => {
      late = true;
      return lateError(timeoutMs, this.where);
    };
    return this.#patience.bound(coming, asIs, giveUp);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#pool?.catch(ignore);
    // It says goodbye to each connection; one that does not answer must not keep us.
    const ended = this.#own?.end().catch(ignore);
    if (ended !== undefined) await this.#patience.bound(ended, asIs, closedError).catch(ignore);
  }

  #textOf(routine: Routine): string {
    const known = this.#calls.get(routine);
    if (known !== undefined) return known;
    const text = callOf(this.#settings.schemaName, routine);
    this.#calls.set(routine, text);
    return text;
  }

  #open(): Promise<PgPoolLike> {
    if (this.#closed) return Promise.reject(closedError());
    this.#pool ??= this.#openNow();
    return this.#pool;
  }

  async #openNow(): Promise<PgPoolLike> {
    const { address, pool, connections, timeoutMs } = this.#settings;
    if (pool !== undefined) return pool;
    if (address === undefined) throw new Error("neither an address nor a pool");
    this.#own = await openPool(address, connections, timeoutMs);
    return this.#own;
  }

  #prepared(): Promise<void> {
    const { schemaName, mayCreate } = this.#settings;
    const patience = new Patience(SCHEMA_TIMEOUT_MS);
    this.#schema ??= ensureSchema(
      { where: this.where, schemaName, mayCreate },
      (query) => this.run(query),
      (work) => this.#use(work, patience),
    )
      .then(() => {
        this.#ready = true;
      })
      .catch((error: unknown) => {
        throw explain(error, this.where);
      })
      .finally(() => {
        this.#schema = undefined;
      });
    return this.#schema;
  }

  /** Work on one connection. One that broke, or that did not answer in time, is not used again. */
  async #use<T>(work: (client: PgPooledClient) => Promise<T>, patience: Patience): Promise<T> {
    const pool = await this.#open();
    let client: PgPooledClient | undefined;
    let over = false;
    const end = (destroy: boolean) => {
      over = true;
      const used = client;
      client = undefined;
      if (used === undefined) return;
      if (!destroy) used.removeListener("error", ignore);
      used.release(destroy);
    };
    const done = async (): Promise<T> => {
      const free = await pool.connect();
      if (over) {
        free.release();
        throw lateError(patience.timeoutMs, this.where);
      }
      client = free;
      // Without it a connection that breaks between two requests would end the process.
      client.on("error", ignore);
      try {
        const result = await work(client);
        end(false);
        return result;
      } catch (error) {
        end(isBroken(error));
        throw error;
      }
    };
    return patience.bound(done(), asIs, () => {
      end(true);
      return lateError(patience.timeoutMs, this.where);
    });
  }
}

function asIs(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.random() * LONGEST_GAP_MS));
}
