import { createHash } from "node:crypto";
import type { LockError } from "../../core/errors.js";
import type { Row, SchemaDriver } from "../sql/driver.js";
import { missingSchema, ReadOnlyServerError } from "../sql/errors.js";
import { procedureName, quoted, rowsOf, statements } from "./dialect.js";
import { busyError, charsetError, ENGINE, isWritable, meaningOf } from "./errors.js";
import { AS_USUAL, type MysqlSession } from "./library.js";

/** How long a process waits for another one that makes the tables, in seconds. */
const LONGEST_WAIT_S = 10;

/** Asked directly: a routine has the character set of the connection that made it. */
const SETTINGS = "SELECT @@character_set_client AS charset, @@global.read_only AS read_only";

async function ask(session: MysqlSession, sql: string): Promise<Row | undefined> {
  const [results] = await session.query({ sql, ...AS_USUAL });
  return rowsOf(results)[0];
}

/** Tables and procedures, all of which begin with the prefix. */
export function schemaDriver(prefix: string): SchemaDriver<MysqlSession> {
  return {
    unusable,
    breaking: (session) => breaking(prefix, session),
    create: (session, check) => create(prefix, session, check),
    missing: () =>
      missingSchema(
        `the database has no tables and procedures "${prefix}_…" for the locks`,
        prefix,
        "locktender/mysql",
      ),
    what: `the tables "${prefix}_…"`,
  };
}

async function breaking(prefix: string, session: MysqlSession): Promise<unknown> {
  try {
    return (await ask(session, `CALL ${procedureName(prefix, "breaking")}()`))?.breaking;
  } catch (error) {
    // Where autocommit is off, this look keeps others from making what it has not found, until it is over.
    await ask(session, "ROLLBACK");
    throw error;
  }
}

async function unusable(session: MysqlSession, where: string): Promise<LockError | undefined> {
  const row = await ask(session, SETTINGS);
  if (row?.charset !== "utf8mb4") return charsetError(String(row?.charset));
  return isWritable(row?.read_only) ? undefined : new ReadOnlyServerError(ENGINE, where);
}

/** One process at a time. Nothing of it can be undone as a whole, so each statement may be repeated. */
async function create(
  prefix: string,
  session: MysqlSession,
  check: (breaking: unknown) => void,
): Promise<void> {
  const run = (sql: string) => ask(session, sql);
  const before = await run(
    "SELECT @@sql_mode AS mode, @@collation_connection AS collation, DATABASE() AS named",
  );
  const lock = lockName(String(before?.named), prefix);
  const mine = await run(`SELECT GET_LOCK(${lock}, ${LONGEST_WAIT_S}) AS got`);
  if (Number(mine?.got) !== 1) throw busyError(prefix, LONGEST_WAIT_S);
  const restore = async () => {
    await run(`DO RELEASE_LOCK(${lock})`);
    await run(`SET SESSION sql_mode = '${before?.mode}', collation_connection = '${before?.collation}'`);
  };
  try {
    if (!(await isComplete(prefix, run, check)))
      for (const statement of statements(prefix)) await run(statement);
  } catch (error) {
    // What went wrong first is what counts.
    await restore().catch(() => undefined);
    throw error;
  }
  await restore();
}

/** Whether another process of this release was faster. */
async function isComplete(
  prefix: string,
  run: (sql: string) => Promise<Row | undefined>,
  check: (breaking: unknown) => void,
): Promise<boolean> {
  const breakingOf = async (sql: string) => {
    try {
      return (await run(sql))?.breaking;
    } catch (error) {
      if (meaningOf(error) === "missing") return undefined;
      throw error;
    }
  };
  const revisions = quoted(`${prefix}_revisions`);
  check((await breakingOf(`SELECT coalesce(max(breaking), 0) AS breaking FROM ${revisions}`)) ?? 0);
  return (await breakingOf(`CALL ${procedureName(prefix, "breaking")}()`)) !== undefined;
}

/**
 * The user lock that the process holds while it makes the schema. Hashed here, because MySQL 9.6 and later have
 * no SHA1(); the hash stays SHA-1, so that releases that let the server compute it take the same lock.
 */
function lockName(database: string, prefix: string): string {
  return `'locktender:${createHash("sha1").update(`${database}:${prefix}`).digest("hex")}'`;
}
