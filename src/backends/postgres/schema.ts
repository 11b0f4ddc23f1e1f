import type { LockError } from "../../core/errors.js";
import type { SchemaDriver } from "../sql/driver.js";
import { missingSchema, otherVersion } from "../sql/errors.js";
import { SCHEMA_VERSION } from "../sql/routines.js";
import type { PgClientLike, PgQuery } from "./client.js";
import { migration, quoted } from "./dialect.js";
import { isolationError, replicaError } from "./errors.js";

/** "LKTD": whoever makes the tables waits for others who do. */
const ADVISORY_LOCK = 1_280_005_188;

/** How long one waits for them, in seconds. */
const PATIENCE_S = 10;

const SETTINGS =
  "SELECT pg_is_in_recovery() AS replica, current_setting('transaction_isolation') AS isolation";

type Row = Readonly<Record<string, unknown>>;

async function ask(client: PgClientLike, query: PgQuery): Promise<Row | undefined> {
  return (await client.query(query)).rows[0] as Row | undefined;
}

/** A schema of the database, with tables and functions in it. */
export function schemaDriver(schema: string): SchemaDriver<PgClientLike> {
  return {
    unusable,
    version: async (client) =>
      (await ask(client, { text: `SELECT ${quoted(schema)}.version() AS version` }))?.version,
    create: (client, isThere) => create(schema, client, isThere),
    missing: () =>
      missingSchema(
        `PostgreSQL has no schema "${schema}" with the tables and functions of the locks`,
        schema,
        "locktender/postgres",
      ),
    otherVersion: (found) =>
      otherVersion(
        `the schema "${schema}" has version ${found} of the tables and functions`,
        found,
        SCHEMA_VERSION,
      ),
  };
}

async function unusable(client: PgClientLike, where: string): Promise<LockError | undefined> {
  const row = await ask(client, { text: SETTINGS });
  if (row?.replica === true) return replicaError(where);
  return row?.isolation === "read committed" ? undefined : isolationError(String(row?.isolation));
}

/** In one transaction, and one at a time: `IF NOT EXISTS` alone lets two of them collide. */
async function create(schema: string, client: PgClientLike, isThere: () => Promise<boolean>): Promise<void> {
  const run = (text: string, values: readonly unknown[] = []) => ask(client, { text, values });
  await run("BEGIN");
  try {
    await run(`SET LOCAL lock_timeout = '${PATIENCE_S}s'`);
    await run("SELECT pg_advisory_xact_lock($1)", [ADVISORY_LOCK]);
    // Calling what is not there would end the transaction.
    const row = await run(
      "SELECT to_regnamespace($1) IS NOT NULL AS named, to_regprocedure($2) IS NOT NULL AS complete",
      [quoted(schema), `${quoted(schema)}.version()`],
    );
    if (row?.complete !== true || !(await isThere())) {
      await client.query({ text: migration(schema, { withSchema: row?.named !== true }) });
    }
    await run("COMMIT");
  } catch (error) {
    await run("ROLLBACK").catch(() => undefined);
    throw error;
  }
}
