// The same write by every client that the fence knows, each in the way that its own manual shows.
import { BetterSQLiteSession } from "drizzle-orm/better-sqlite3/session";
import { drizzle as drizzleMysql } from "drizzle-orm/mysql2";
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { drizzle as drizzlePostgresJs } from "drizzle-orm/postgres-js";
import { BaseSQLiteDatabase, SQLiteSyncDialect } from "drizzle-orm/sqlite-core";
import { drizzle as drizzleProxy } from "drizzle-orm/sqlite-proxy";
import { CamelCasePlugin, Kysely, MysqlDialect, PostgresDialect, SqliteDialect } from "kysely";
import Database from "libsql";
import { type Fenced, fence, fenceTable } from "locktender/fence";
import mysqlCallbacks from "mysql2";
import mysql from "mysql2/promise";
import pg from "pg";
import postgres from "postgres";
import { afterAll } from "vitest";
import { freshDatabaseWith } from "./servers.js";

const PAPER = "CREATE TABLE paper (line VARCHAR(100))";
const postgresUrl = await freshDatabaseWith("postgres", fenceTable("postgres"), PAPER);
const mysqlUrl = await freshDatabaseWith("mysql", fenceTable("mysql"), PAPER);

export const pgPool = new pg.Pool({ connectionString: postgresUrl });
const postgresJs = postgres(postgresUrl, { max: 2, transform: postgres.toPascal });
const mysqlPool = mysql.createPool(mysqlUrl);
const callbackPool = mysqlCallbacks.createPool(mysqlUrl);
afterAll(() => Promise.all([pgPool.end(), postgresJs.end(), mysqlPool.end(), callbackPool.promise().end()]));

export type OpenSqlite = new (file: string) => InstanceType<typeof Database>;

export function sqliteFile(Library: OpenSqlite = Database): InstanceType<typeof Database> {
  const db = new Library(":memory:");
  db.exec(fenceTable("sqlite"));
  db.exec(PAPER);
  return db;
}

export const libsql = sqliteFile();
const forKysely = sqliteFile();
const forDrizzle = sqliteFile();
const forProxy = sqliteFile();

/** One way to write: in a transaction, the fence first, then the line. */
export interface Writer {
  write(lease: Fenced, line: string): unknown;
  /** The same outside any transaction. */
  careless(lease: Fenced): unknown;
  lines(): unknown;
}

const insert = (line: string) => `INSERT INTO paper VALUES ('${line}')`;
const SELECT = "SELECT line FROM paper";

const pgLines = async () => (await pgPool.query<{ line: string }>(SELECT)).rows;
const mysqlLines = async () => (await mysqlPool.query(SELECT))[0];

const kyselyOf = (dialect: PostgresDialect | MysqlDialect | SqliteDialect) =>
  new Kysely<{ paper: { line: string } }>({ dialect, plugins: [new CamelCasePlugin()] });
const kyselyPg = kyselyOf(new PostgresDialect({ pool: pgPool }));
const kyselyMysql = kyselyOf(new MysqlDialect({ pool: callbackPool }));
const kyselySqlite = kyselyOf(new SqliteDialect({ database: forKysely as never }));

function kyselyWriter(db: typeof kyselyPg): Writer {
  return {
    write: (lease, line) =>
      db.transaction().execute(async (tx) => {
        await fence(tx, lease);
        await tx.insertInto("paper").values({ line }).execute();
      }),
    // @ts-expect-error A database is no transaction.
    careless: (lease) => fence(db, lease),
    lines: () => db.selectFrom("paper").select("line").execute(),
  };
}

const overPg = drizzlePg({ client: pgPool });
const overPostgresJs = drizzlePostgresJs({ client: postgres(postgresUrl, { max: 2, idle_timeout: 1 }) });
const overMysql = drizzleMysql({ client: mysqlPool });
const dialect = new SQLiteSyncDialect();
// What drizzle-orm/better-sqlite3 makes, which needs the library even if it is given a client.
const session = new BetterSQLiteSession(forDrizzle as never, dialect, undefined);
const overSqlite = new BaseSQLiteDatabase("sync", dialect, session, undefined);
const overProxy = drizzleProxy(async (sql, params, method) => {
  const statement = forProxy.prepare(sql);
  if (method === "run") return { rows: [statement.run(...params)] as never[] };
  return { rows: statement.all(...params) as never[] };
});

/** As Prisma 7 gives it to the callback of `$transaction`, on a connection of pg. Those before had no second one. */
export function prismaLike(client: pg.PoolClient) {
  return {
    $queryRawUnsafe: async (sql: string): Promise<unknown> => (await client.query(sql)).rows,
    $transaction: async <T>(work: (tx: object) => Promise<T>): Promise<T> => work({}),
  };
}

async function inPg<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pgPool.connect();
  try {
    await client.query("BEGIN");
    const value = await work(client);
    await client.query("COMMIT");
    return value;
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

async function inMysql(work: (connection: mysql.PoolConnection) => Promise<void>): Promise<void> {
  const connection = await mysqlPool.getConnection();
  try {
    await connection.beginTransaction();
    await work(connection);
    await connection.commit();
  } catch (error) {
    await connection.rollback();
    throw error;
  } finally {
    connection.release();
  }
}

export function sqliteWriter(db: InstanceType<typeof Database>): Writer {
  return {
    write: (lease, line) =>
      db.transaction(() => {
        fence(db, lease);
        db.exec(insert(line));
      })(),
    careless: (lease) => fence(db, lease),
    lines: () => db.prepare(SELECT).all(),
  };
}

export const WRITERS: Readonly<Record<string, Writer>> = {
  pg: {
    write: (lease, line) =>
      inPg(async (client) => {
        await fence(client, lease);
        await client.query(insert(line));
      }),
    careless: async (lease) => {
      const client = await pgPool.connect();
      await fence(client, lease).finally(() => client.release());
    },
    lines: pgLines,
  },
  "a pool of pg": {
    write: (lease, line) => WRITERS.pg?.write(lease, line),
    // @ts-expect-error A pool is no transaction.
    careless: (lease) => fence(pgPool, lease),
    lines: pgLines,
  },
  "postgres.js": {
    write: (lease, line) =>
      postgresJs.begin(async (tx) => {
        await fence(tx, lease);
        await tx.unsafe(insert(line));
      }),
    // @ts-expect-error It is no transaction.
    careless: (lease) => fence(postgresJs, lease),
    lines: pgLines,
  },
  "mysql2/promise": {
    write: (lease, line) =>
      inMysql(async (connection) => {
        await fence(connection, lease);
        await connection.query(insert(line));
      }),
    careless: async (lease) => {
      const connection = await mysqlPool.getConnection();
      await fence(connection, lease).finally(() => connection.release());
    },
    lines: mysqlLines,
  },
  "mysql2 with callbacks": {
    write: (lease, line) =>
      new Promise<void>((resolve, reject) => {
        callbackPool.getConnection((_, connection) => {
          const end = (sql: string, settle: () => void) =>
            connection.query(sql, () => {
              connection.release();
              settle();
            });
          connection.beginTransaction(() => {
            fence(connection, lease).then(
              () => void connection.query(insert(line), () => end("COMMIT", resolve)),
              (error: unknown) => void end("ROLLBACK", () => reject(error)),
            );
          });
        });
      }),
    // @ts-expect-error A pool is no transaction.
    careless: (lease) => fence(callbackPool, lease),
    lines: mysqlLines,
  },
  libsql: sqliteWriter(libsql),
  "Kysely on PostgreSQL": kyselyWriter(kyselyPg),
  "Kysely on MySQL": kyselyWriter(kyselyMysql),
  "Kysely on SQLite": kyselyWriter(kyselySqlite),
  "Drizzle on PostgreSQL": {
    write: (lease, line) =>
      overPg.transaction(async (tx) => {
        await fence(tx, lease);
        await tx.execute(insert(line));
      }),
    // @ts-expect-error A database is no transaction.
    careless: (lease) => fence(overPg, lease),
    lines: pgLines,
  },
  "Drizzle on PostgreSQL, by postgres.js": {
    write: (lease, line) =>
      overPostgresJs.transaction(async (tx) => {
        await fence(tx, lease);
        await tx.execute(insert(line));
      }),
    // @ts-expect-error A database is no transaction.
    careless: (lease) => fence(overPostgresJs, lease),
    lines: pgLines,
  },
  "Drizzle on MySQL": {
    write: (lease, line) =>
      overMysql.transaction(async (tx) => {
        await fence(tx, lease);
        await tx.execute(insert(line));
      }),
    // @ts-expect-error A database is no transaction.
    careless: (lease) => fence(overMysql, lease),
    lines: mysqlLines,
  },
  "Drizzle on SQLite": {
    write: (lease, line) =>
      overSqlite.transaction((tx) => {
        fence(tx, lease);
        tx.run(insert(line));
      }),
    // @ts-expect-error A database is no transaction.
    careless: (lease) => fence(overSqlite, lease),
    lines: () => forDrizzle.prepare(SELECT).all(),
  },
  "Drizzle on SQLite, by a library that answers later": {
    write: (lease, line) =>
      overProxy.transaction(async (tx) => {
        await fence(tx, lease);
        await tx.run(insert(line));
      }),
    // @ts-expect-error A database is no transaction.
    careless: (lease) => fence(overProxy, lease),
    lines: () => forProxy.prepare(SELECT).all(),
  },
  "the shape of Prisma": {
    write: (lease, line) =>
      inPg(async (client) => {
        await fence(prismaLike(client), lease, { dialect: "postgres" });
        await client.query(insert(line));
      }),
    careless: (lease) => {
      const whole = { ...prismaLike({} as pg.PoolClient), $connect: async () => {} };
      // @ts-expect-error A client is no transaction.
      return fence(whole, lease, { dialect: "postgres" });
    },
    lines: pgLines,
  },
};
