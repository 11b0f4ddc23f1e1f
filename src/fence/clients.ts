// The shapes of the transactions that people have, as far as the fence uses them. No library is imported. What
// is not in a transaction does not fit: properties that only pools and whole databases have must be absent.

export type Dialect = "postgres" | "mysql" | "sqlite";

/** The one shape behind them all; make one for a client that is not known here. */
export interface Executor {
  readonly dialect: Dialect;
  /** Runs one statement, without parameters, inside the caller's transaction, and gives its rows as objects. */
  query(sql: string): Promise<readonly unknown[]>;
}

/** A client of `pg`, alone or from its pool, or one like it. */
export interface PgTransaction {
  query(sql: string): Promise<{ readonly rows: readonly unknown[] }>;
  readonly totalCount?: never;
}

/** What `sql.begin` of postgres.js gives to its callback. */
export interface PostgresJsTransaction {
  unsafe(sql: string): { raw(): PromiseLike<readonly (readonly unknown[])[]> };
  savepoint(work: never): unknown;
  readonly listen?: never;
}

/** A connection of `mysql2/promise`. */
export interface MysqlPromiseTransaction {
  query(sql: string): Promise<[unknown, unknown]>;
  beginTransaction(): Promise<void>;
  readonly getConnection?: never;
}

/** A connection of `mysql2`, which takes callbacks. */
export interface MysqlCallbackTransaction {
  promise(): { query(sql: string): Promise<[unknown, unknown]> };
  beginTransaction(done: (error: unknown) => void): void;
  readonly getConnection?: never;
}

/** A database of `better-sqlite3`, `libsql` or `node:sqlite`. Its transactions cannot wait, so neither may we. */
export interface SqliteTransaction {
  prepare(sql: string): { all(): unknown[] };
  exec(sql: string): unknown;
  readonly inTransaction?: boolean;
  readonly isTransaction?: boolean;
}

/** A transaction of Kysely. */
export interface KyselyTransaction {
  readonly isTransaction: true;
  executeQuery(query: never): Promise<{ readonly rows: readonly unknown[] }>;
}

/** A transaction of Drizzle on PostgreSQL or MySQL. */
export interface DrizzleTransaction {
  execute(sql: string): PromiseLike<unknown>;
  rollback(): never;
}

/** A transaction of Drizzle on SQLite, by a library that answers later. */
export interface DrizzleSqliteTransaction {
  all(sql: string): PromiseLike<unknown[]>;
  rollback(): never;
}

/** A transaction of Drizzle on SQLite, by `better-sqlite3`. */
export interface DrizzleSyncTransaction {
  all(sql: string): unknown[];
  rollback(): never;
}

/**
 * What Prisma gives to the callback of `$transaction`. It does not show which database it is for. Since version 7
 * it has a `$transaction` itself, for savepoints; what only whole clients have is `$connect`.
 */
export interface PrismaTransaction {
  $queryRawUnsafe(sql: string): PromiseLike<unknown>;
  readonly $connect?: never;
}

export type SyncTransaction = SqliteTransaction | DrizzleSyncTransaction;

export type Transaction =
  | Executor
  | PgTransaction
  | PostgresJsTransaction
  | MysqlPromiseTransaction
  | MysqlCallbackTransaction
  | KyselyTransaction
  | DrizzleTransaction
  | DrizzleSqliteTransaction;
