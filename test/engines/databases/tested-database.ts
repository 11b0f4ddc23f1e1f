import { randomBytes } from "node:crypto";
import { createLocks, type Locks, type LocksOptions } from "locktender";
import type { MysqlOptions } from "locktender/mysql";
import type { PostgresOptions } from "locktender/postgres";
import { onTestFinished } from "vitest";
import type { Backend } from "#lib/core/backend.js";

export { eventually, queued, sleep } from "#lib/testing/suite/bench.js";
export { claimRequest as request } from "../../support/claim-request.js";

/** Options that every database has. */
export type DatabaseOptions = Omit<PostgresOptions & MysqlOptions, "pool" | "listen"> & {
  readonly pool?: never;
};

export interface Rows extends ReadonlyArray<Readonly<Record<string, unknown>>> {}

/** A server that may be broken. */
export interface Victim {
  readonly url: string;
  restart(): Promise<void>;
  freeze(): void;
  thaw(): void;
  log(): Promise<string>;
  stop(): Promise<void>;
}

/** A pool of the caller's, and one of its connections. */
export interface TestedPool {
  /** Begins to: it waits for connections that are lent. */
  end(): void;
  backend(options: DatabaseOptions): Backend;
  connect(): Promise<TestedConnection>;
}

export interface TestedConnection {
  query(sql: string): Promise<Rows>;
  /** It is closed. */
  release(): void;
  giveBack(): void;
}

/** What the promises that all databases keep have to know about one of them. */
export interface TestedDatabase {
  /** A server that all tests share, and the user in its URL, who may do everything. */
  readonly url: string;
  readonly user: string;
  /** The page of its documentation. */
  readonly page: string;
  /** A character that ends an identifier. */
  readonly quote: string;
  /** Options with which waiters poll. */
  readonly polling: object;
  /** The file beside this one that holds the migration of revision 2. */
  readonly oldMigration: string;
  open(options: DatabaseOptions): Backend;
  ask(url: string, sql: string): Promise<Rows>;
  pool(url: string, max: number): TestedPool;
  /** With these variables in its environment. */
  start(env?: Readonly<Record<string, string>>): Promise<Victim>;
  migration(prefix: string): string;
  /** As an administrator would run a migration. */
  runByHand(text: string): Promise<void>;
  /** From now on that server refuses whatever writes, or no longer. */
  setReadOnly(url: string, on: boolean): Promise<void>;
  readonly sql: TestedSql;
}

/** Statements that each database says in its own words. */
export interface TestedSql {
  readonly begin: string;
  table(prefix: string, table: "claims" | "resources" | "forced"): string;
  /** Whatever is there of these locks, one row each. */
  traces(prefix: string): string;
  drop(prefix: string): string;
  setBreaking(prefix: string, revision: number): string;
  /** Those of this release that take a lock, and by which it knows that they are there. */
  dropRoutines(prefix: string): string;
  /** What a release of revision 2 sends: its claim of a whole name, and its release. */
  oldClaim(prefix: string, name: string, id: string): string;
  oldRelease(prefix: string, name: string, id: string): string;
  makeUser(name: string): string;
  /** The rights that the page lists. */
  allow(prefix: string, name: string): string;
  /** And those of the user that makes the schema. */
  allowMaking(name: string): string;
  dropUser(name: string): string;
  /** One row: `n`, the number of connections of that user. */
  countConnections(name: string): string;
  /** The lock that a process holds while it makes the schema. */
  holdMaking(prefix: string): string;
  /** Names that were used two hours ago. */
  fill(prefix: string, names: number): string;
  /** Claims that wait on the server for a row: one row each, with their `pid`. */
  stuck(prefix: string): string;
  kill(pid: unknown): string;
}

export interface DatabaseTools {
  backend(options?: DatabaseOptions): Backend;
  open(options?: DatabaseOptions, settings?: LocksOptions): Locks;
  /** A connection on which a transaction has begun. */
  begin(url?: string): Promise<TestedConnection>;
}

/** Everything that is opened by them ends with the test. */
export function toolsFor(database: TestedDatabase): DatabaseTools {
  const make = (options: DatabaseOptions) =>
    database.open({ url: database.url, prefix: newPrefix(), ...options });
  return {
    backend: (options = {}) => tracked(make(options)),
    open: (options = {}, settings = {}) => {
      const locks = createLocks(make(options), settings);
      onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
      return locks;
    },
    begin: async (url = database.url) => {
      const connection = await database.pool(url, 1).connect();
      let open = true;
      const release = () => {
        if (open) connection.release();
        open = false;
      };
      onTestFinished(release);
      await connection.query(database.sql.begin);
      return { ...connection, release };
    },
  };
}

/** A user of its own for a test, who may make the schema: its URL, and how many connections it has. */
export async function newUser(database: TestedDatabase, url = database.url) {
  const { ask, sql, user } = database;
  const name = `user_${newPrefix()}`;
  await ask(url, sql.makeUser(name));
  await ask(url, sql.allowMaking(name));
  onTestFinished(async () => {
    await ask(url, sql.dropUser(name));
  });
  const connections = async () => Number((await ask(url, sql.countConnections(name)))[0]?.n);
  return { own: url.replace(`${user}@`, `${name}@`), connections };
}

export function isGranted({ state }: { readonly state: string }): boolean {
  return state === "granted";
}

export function tracked(backend: Backend): Backend {
  onTestFinished(() => backend.close());
  return backend;
}

export function newPrefix(): string {
  return `t_${randomBytes(6).toString("hex")}`;
}
