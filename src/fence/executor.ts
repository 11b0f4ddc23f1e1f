import { hasMethods, invalidOption, partOf } from "../core/errors.js";

type Rows = readonly unknown[];

/** An executor, but what answers at once may do so. */
export interface AnyExecutor {
  readonly dialect: Dialect;
  query(sql: string): Rows | PromiseLike<Rows>;
}

/** By which Drizzle itself knows its classes, also those of another copy. */
const DRIZZLE = Symbol.for("drizzle:entityKind");
const DRIZZLE_TRANSACTIONS: Readonly<Record<string, Dialect>> = {
  PgTransaction: "postgres",
  MySqlTransaction: "mysql",
  SQLiteTransaction: "sqlite",
};
/**
 * Writes nothing, but waits for the file, or fails to get it. In libsql, a prepared statement to which that
 * happens stays active, and keeps the connection at its old snapshot for as long as it is not garbage-collected.
 */
const TAKE_THE_FILE = "DELETE FROM locktender_fence WHERE 0";
/** What PostgreSQL allows in a transaction only. The fence itself takes a stronger lock, which hinders no other one either. */
const BE_IN_TRANSACTION = "LOCK TABLE locktender_fence IN ACCESS SHARE MODE";
const NOT_IN_TRANSACTION = "25P01";
/** A flag in what MySQL says of each statement. */
const IN_TRANSACTION = 1;

/** Whether the client does everything at once: its transactions cannot wait. */
export function isSynchronous(tx: object): boolean {
  return isSqlite(tx) || partOf(tx, "resultKind") === "sync";
}

/** Others have `prepare`, too, but not `exec`. */
function isSqlite(tx: object): tx is SqliteTransaction {
  return hasMethods(tx, ["prepare", "exec"]);
}

/** Refuses what is visibly not in a transaction: there the fence would protect nothing. */
export function executorOf(tx: object, dialect: Dialect | undefined): AnyExecutor {
  const has = (part: string) => hasMethods(tx, [part]);
  if (has("query") && typeof partOf(tx, "dialect") === "string") return tx as Executor;
  if (has("$queryRawUnsafe")) return ofPrisma(tx as PrismaTransaction, dialect);
  if (has("executeQuery")) return ofKysely(tx as unknown as Kysely);
  if (partOf(partOf(tx, "constructor"), DRIZZLE) !== undefined) return ofDrizzle(tx as Drizzle);
  if (isSqlite(tx)) return ofSqlite(tx);
  if (typeof tx === "function" && has("unsafe")) return ofPostgresJs(tx as unknown as PostgresJsTransaction);
  if (has("getConnection")) throw noTransaction("a pool of MySQL connections");
  if (has("beginTransaction")) {
    if (isMysql2(tx)) return ofMysql(tx as MysqlPromiseTransaction | MysqlCallbackTransaction);
  } else if (has("query")) return ofPg(tx as PgTransaction);
  throw invalidOption(
    "fence: this is no transaction of a client that is known here. Give an executor: { dialect, query(sql) }, where query gives the rows. Of MySQL clients, mysql2 is known.",
  );
}

/** Those of the packages mysql and mariadb look alike, and answer otherwise. */
function isMysql2(connection: object): boolean {
  return hasMethods(connection, ["promise"]) || hasMethods(partOf(connection, "connection"), ["promise"]);
}

function noTransaction(what: string): Error {
  return invalidOption(
    `fence: ${what} is not in a transaction, so the write could land after a newer holder's. Begin one, and give the fence what writes inside it.`,
  );
}

function ofPg(client: PgTransaction & { getTransactionStatus?(): unknown }): AnyExecutor {
  if (partOf(client, "totalCount") !== undefined) throw noTransaction("a pool of pg");
  return {
    dialect: "postgres",
    async query(sql) {
      // Before version 8.21, pg does not know; nor do others that are like it. Then the server is asked.
      if (client.getTransactionStatus === undefined) await beInTransaction(client);
      const answer = await client.query(sql);
      // Not before: a BEGIN may still have been on its way.
      if (client.getTransactionStatus?.() === "I") throw noTransaction("this client of pg");
      return rowsOf(answer);
    },
  };
}

function ofPostgresJs(tx: PostgresJsTransaction): AnyExecutor {
  if (!hasMethods(tx, ["savepoint"])) throw noTransaction("this sql of postgres.js");
  return {
    dialect: "postgres",
    // By position, and as bytes: the caller may have columns renamed, and rows and values changed.
    query: async (sql) => (await tx.unsafe(sql).raw()).map(([token]) => ({ token: String(token) })),
  };
}

async function beInTransaction(client: PgTransaction): Promise<void> {
  try {
    await client.query(BE_IN_TRANSACTION);
  } catch (error) {
    const { code } = (error ?? {}) as { code?: unknown };
    throw code === NOT_IN_TRANSACTION ? noTransaction("this client of PostgreSQL") : error;
  }
}

function ofMysql(connection: MysqlPromiseTransaction | MysqlCallbackTransaction): AnyExecutor {
  const promised = "promise" in connection ? connection.promise() : connection;
  return { dialect: "mysql", query: async (sql) => mysqlRows(await promised.query(sql)) };
}

function ofSqlite(database: SqliteTransaction): AnyExecutor {
  // One of libsql that is closed would end the process if it was asked for its transaction.
  if (partOf(database, "open") === false || !isInTransaction(database))
    throw noTransaction("this SQLite database");
  return {
    dialect: "sqlite",
    query(sql) {
      database.exec(TAKE_THE_FILE);
      return database.prepare(sql).all();
    },
  };
}

/** Where it does not say so (node:sqlite before Node.js 22.16), it is tried: in a transaction none can begin. */
function isInTransaction(database: SqliteTransaction): boolean {
  const known = database.inTransaction ?? database.isTransaction;
  if (known !== undefined) return known;
  try {
    database.exec("BEGIN");
  } catch {
    return true;
  }
  database.exec("ROLLBACK");
  return false;
}

interface Kysely {
  readonly isTransaction: boolean;
  executeQuery(query: object): Promise<{ readonly rows: Rows }>;
  selectFrom(table: string): {
    where(column: string, operator: "=", value: string): { compile(): { readonly sql: string } };
  };
}

function ofKysely(tx: Kysely): AnyExecutor {
  if (!tx.isTransaction) throw noTransaction("this Kysely");
  return {
    dialect: kyselyDialect(tx),
    async query(sql) {
      // What its CompiledQuery.raw makes.
      const query = { kind: "RawNode", sqlFragments: [sql], parameters: [] };
      const queryId = { queryId: "locktender-fence" };
      return (await tx.executeQuery({ sql, query, queryId, parameters: [] })).rows;
    },
  };
}

/** Its adapters have no common mark, but the SQL that it makes shows whom it is for. */
function kyselyDialect(tx: Kysely): Dialect {
  const { sql } = tx.selectFrom("a").where("b", "=", "c").compile();
  if (sql.includes("`")) return "mysql";
  if (sql.includes("$1")) return "postgres";
  if (sql.includes("?")) return "sqlite";
  throw invalidOption("fence: this Kysely is for a database that is not known here.");
}

interface Drizzle {
  execute(sql: string): PromiseLike<unknown>;
  all(sql: string): Rows | PromiseLike<Rows>;
}

function ofDrizzle(tx: Drizzle): AnyExecutor {
  const dialect = drizzleDialect(tx.constructor);
  if (dialect === undefined) throw noTransaction("this Drizzle database");
  if (dialect === "sqlite") return { dialect, query: (sql) => tx.all(sql) };
  const read = dialect === "mysql" ? mysqlRows : rowsOf;
  return { dialect, query: async (sql) => read(await tx.execute(sql)) };
}

function drizzleDialect(kind: unknown): Dialect | undefined {
  if (typeof kind !== "function") return undefined;
  const name = (kind as { [DRIZZLE]?: string })[DRIZZLE] ?? "";
  return DRIZZLE_TRANSACTIONS[name] ?? drizzleDialect(Object.getPrototypeOf(kind));
}

function ofPrisma(tx: PrismaTransaction, dialect: Dialect | undefined): AnyExecutor {
  if (typeof tx.$connect === "function") throw noTransaction("this Prisma client");
  if (dialect === undefined) {
    throw invalidOption(
      'fence: Prisma does not show for which database it is. Say it: { dialect: "postgres" }.',
    );
  }
  return { dialect, query: async (sql) => rowsOf(await tx.$queryRawUnsafe(sql)) };
}

/** Some clients give the rows, others put them into an object. */
function rowsOf(answer: unknown): Rows {
  const rows = Array.isArray(answer) ? answer : (answer as { rows?: unknown } | undefined)?.rows;
  if (Array.isArray(rows)) return rows;
  throw invalidOption("fence: the client did not answer with rows.");
}

/** mysql2 answers [rows, fields]; in place of rows, a statement that has none gets a header. */
function mysqlRows(answer: unknown): Rows {
  const [first] = rowsOf(answer);
  if (Array.isArray(first)) return first;
  const { serverStatus } = first as { serverStatus?: number };
  if (serverStatus !== undefined && (serverStatus & IN_TRANSACTION) === 0)
    throw noTransaction("this MySQL connection");
  return [];
}

// The shapes of the transactions that people have, as far as the fence uses them. No library is imported. What
// is not in a transaction does not fit: properties that only pools and whole databases have must be absent.

/** The SQL of the fence: `postgres`; `mysql`, for MariaDB as well; or `sqlite`. */
export type Dialect = "postgres" | "mysql" | "sqlite";

/** The one shape behind them all; make one for a client that is not known here. */
export interface Executor {
  /** The SQL that its database speaks. */
  readonly dialect: Dialect;
  /** Runs one statement, without parameters, inside the caller's transaction, and gives its rows as objects. */
  query(sql: string): Promise<readonly unknown[]>;
}

/** A client of `pg`, alone or from its pool, or one like it. */
interface PgTransaction {
  query(sql: string): Promise<{ readonly rows: readonly unknown[] }>;
  readonly totalCount?: never;
}

/** What `sql.begin` of postgres.js gives to its callback. */
interface PostgresJsTransaction {
  unsafe(sql: string): { raw(): PromiseLike<readonly (readonly unknown[])[]> };
  savepoint(work: never): unknown;
  readonly listen?: never;
}

/** A connection of `mysql2/promise`. */
interface MysqlPromiseTransaction {
  query(sql: string): Promise<[unknown, unknown]>;
  beginTransaction(): Promise<void>;
  readonly getConnection?: never;
}

/** A connection of `mysql2`, which takes callbacks. */
interface MysqlCallbackTransaction {
  promise(): { query(sql: string): Promise<[unknown, unknown]> };
  beginTransaction(done: (error: unknown) => void): void;
  readonly getConnection?: never;
}

/** A database of `better-sqlite3`, `libsql` or `node:sqlite`. Its transactions cannot wait, so neither may we. */
interface SqliteTransaction {
  prepare(sql: string): { all(): unknown[] };
  exec(sql: string): unknown;
  readonly inTransaction?: boolean;
  readonly isTransaction?: boolean;
}

/** A transaction of Kysely. */
interface KyselyTransaction {
  readonly isTransaction: true;
  executeQuery(query: never): Promise<{ readonly rows: readonly unknown[] }>;
}

/** A transaction of Drizzle on PostgreSQL or MySQL. */
interface DrizzleTransaction {
  execute(sql: string): PromiseLike<unknown>;
  rollback(): never;
}

/** A transaction of Drizzle on SQLite, by a library that answers later. */
interface DrizzleSqliteTransaction {
  all(sql: string): PromiseLike<unknown[]>;
  rollback(): never;
}

/** A transaction of Drizzle on SQLite, by `better-sqlite3`. */
interface DrizzleSyncTransaction {
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

/** A transaction of a client that answers at once: `better-sqlite3`, `libsql`, `node:sqlite`, or Drizzle on the first. */
export type SyncTransaction = SqliteTransaction | DrizzleSyncTransaction;

/** What writes inside a transaction: of `pg`, postgres.js, `mysql2`, Kysely or Drizzle, or an executor. A pool does not fit. */
export type Transaction =
  | Executor
  | PgTransaction
  | PostgresJsTransaction
  | MysqlPromiseTransaction
  | MysqlCallbackTransaction
  | KyselyTransaction
  | DrizzleTransaction
  | DrizzleSqliteTransaction;
