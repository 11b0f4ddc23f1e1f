import type { LockError } from "../../core/errors.js";
import type { SchemaDriver } from "../sql/driver.js";
import { missingSchema, otherVersion } from "../sql/errors.js";
import type { Row } from "../sql/link.js";
import { SCHEMA_VERSION } from "../sql/routines.js";
import { AS_USUAL, type MysqlSession } from "./client.js";
import { quoted, rowsOf, statements } from "./dialect.js";
import { busyError, charsetError, replicaError } from "./errors.js";

/** How long one waits for others who make the tables, in seconds. */
const PATIENCE_S = 10;

/** Asked directly: a routine has the character set of whoever made it. */
const SETTINGS = "SELECT @@character_set_client AS charset, @@global.read_only AS replica";

async function ask(session: MysqlSession, sql: string): Promise<Row | undefined> {
  const [results] = await session.query({ sql, ...AS_USUAL });
  return rowsOf(results)[0];
}

/** Tables and procedures, all of which begin with the prefix. */
export function schemaDriver(prefix: string): SchemaDriver<MysqlSession> {
  return {
    unusable,
    version: async (session) => (await ask(session, `CALL ${quoted(`${prefix}_version`)}()`))?.version,
    create: (session, isThere) => create(prefix, session, isThere),
    missing: () =>
      missingSchema(
        `the database has no tables and procedures "${prefix}_…" for the locks`,
        prefix,
        "locktender/mysql",
      ),
    otherVersion: (found) =>
      otherVersion(`the tables and procedures "${prefix}_…" have version ${found}`, found, SCHEMA_VERSION),
  };
}

async function unusable(session: MysqlSession, where: string): Promise<LockError | undefined> {
  const row = await ask(session, SETTINGS);
  if (row?.charset !== "utf8mb4") return charsetError(String(row?.charset));
  return Number(row?.replica) === 0 ? undefined : replicaError(where);
}

/** One at a time. Nothing of it can be undone as a whole, so each statement may be repeated. */
async function create(prefix: string, session: MysqlSession, isThere: () => Promise<boolean>): Promise<void> {
  const run = (sql: string) => ask(session, sql);
  const lock = `CONCAT('locktender:', SHA1(CONCAT(DATABASE(), ':${prefix}')))`;
  const before = await run("SELECT @@sql_mode AS mode, @@collation_connection AS collation");
  const mine = await run(`SELECT GET_LOCK(${lock}, ${PATIENCE_S}) AS got`);
  if (Number(mine?.got) !== 1) throw busyError(prefix, PATIENCE_S);
  const restore = async () => {
    await run(`DO RELEASE_LOCK(${lock})`);
    await run(`SET SESSION sql_mode = '${before?.mode}', collation_connection = '${before?.collation}'`);
  };
  try {
    if (!(await isThere())) for (const statement of statements(prefix)) await run(statement);
  } catch (error) {
    // What went wrong first is what counts.
    await restore().catch(() => undefined);
    throw error;
  }
  await restore();
}
