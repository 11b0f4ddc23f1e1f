import type { Row } from "../sql/link.js";
import { SCHEMA_VERSION } from "../sql/routines.js";
import type { MysqlConnectionLike } from "./client.js";
import { quoted, statements } from "./dialect.js";
import { charsetError, isMissing, missingSchema, otherVersion, replicaError } from "./errors.js";
import { rowsOf } from "./link.js";

/** How long one waits for others who make the tables, in seconds. */
const PATIENCE_S = 25;

export interface SchemaNeeds {
  readonly where: string;
  readonly prefix: string;
  readonly mayCreate: boolean;
}

/** Looks whether everything is there in the right version, and makes it if it is missing and may be made. */
export async function ensureSchema(
  needs: SchemaNeeds,
  run: (sql: string) => Promise<readonly Row[]>,
  withConnection: (work: (connection: MysqlConnectionLike) => Promise<void>) => Promise<void>,
): Promise<void> {
  await assertUsable(needs.where, run);
  if (await isThere(needs, run)) return;
  if (!needs.mayCreate) throw missingSchema(needs.prefix);
  await withConnection((connection) => create(needs, connection));
}

/** Asked directly: a routine has the character set of whoever made it. */
async function assertUsable(where: string, run: (sql: string) => Promise<readonly Row[]>): Promise<void> {
  const [row] = await run("SELECT @@character_set_client AS charset, @@global.read_only AS replica");
  if (row?.charset !== "utf8mb4") throw charsetError(String(row?.charset));
  if (Number(row?.replica) !== 0) throw replicaError(where);
}

async function isThere(
  { prefix }: SchemaNeeds,
  run: (sql: string) => Promise<readonly Row[]>,
): Promise<boolean> {
  let rows: readonly Row[];
  try {
    rows = await run(`CALL ${quoted(`${prefix}_version`)}()`);
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
  const [row] = rows;
  if (Number(row?.version) !== SCHEMA_VERSION)
    throw otherVersion(prefix, Number(row?.version), SCHEMA_VERSION);
  return true;
}

/** One at a time. Nothing of it can be undone as a whole, so each statement may be repeated. */
async function create(needs: SchemaNeeds, connection: MysqlConnectionLike): Promise<void> {
  const run = async (sql: string): Promise<readonly Row[]> => {
    const [results] = await connection.query({ sql, rowsAsArray: false });
    return rowsOf(results);
  };
  const lock = `CONCAT('locktender:', LEFT(SHA1(CONCAT(DATABASE(), ':${needs.prefix}')), 40))`;
  const [before] = await run("SELECT @@SESSION.sql_mode AS mode");
  await run(`SELECT GET_LOCK(${lock}, ${PATIENCE_S})`);
  try {
    if (await isThere(needs, run)) return;
    for (const statement of statements(needs.prefix)) await run(statement);
  } finally {
    await run(`DO RELEASE_LOCK(${lock})`);
    await run(`SET SESSION sql_mode = '${before?.mode}'`);
  }
}
