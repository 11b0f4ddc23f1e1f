import { SCHEMA_VERSION } from "../sql/routines.js";
import type { PgClientLike, PgQuery } from "./client.js";
import { migration, quoted } from "./dialect.js";
import { isMissing, isolationError, missingSchema, otherVersion, replicaError } from "./errors.js";

/** "LKTD": whoever makes the tables waits for others who do. */
const ADVISORY_LOCK = 1_280_005_188;

export interface SchemaNeeds {
  readonly where: string;
  readonly schemaName: string;
  readonly mayCreate: boolean;
}

/** Looks whether everything is there in the right version, and makes it if it is missing and may be made. */
export async function ensureSchema(
  needs: SchemaNeeds,
  run: (query: PgQuery) => Promise<readonly unknown[]>,
  withClient: (work: (client: PgClientLike) => Promise<void>) => Promise<void>,
): Promise<void> {
  await assertUsable(needs.where, run);
  if (await isThere(needs.schemaName, run)) return;
  if (!needs.mayCreate) throw missingSchema(needs.schemaName);
  await withClient((client) => create(needs.schemaName, client));
}

async function assertUsable(
  where: string,
  run: (query: PgQuery) => Promise<readonly unknown[]>,
): Promise<void> {
  const text = "SELECT pg_is_in_recovery() AS replica, current_setting('transaction_isolation') AS isolation";
  const [row] = (await run({ text })) as readonly { replica: boolean; isolation: string }[];
  if (row?.replica === true) throw replicaError(where);
  if (row?.isolation !== "read committed") throw isolationError(String(row?.isolation));
}

async function isThere(
  schema: string,
  run: (query: PgQuery) => Promise<readonly unknown[]>,
): Promise<boolean> {
  let rows: readonly unknown[];
  try {
    rows = await run({ text: `SELECT ${quoted(schema)}.version() AS version` });
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
  const [row] = rows as readonly { version: number }[];
  if (row?.version !== SCHEMA_VERSION) throw otherVersion(schema, Number(row?.version), SCHEMA_VERSION);
  return true;
}

/** In one transaction, and one at a time: `IF NOT EXISTS` alone lets two of them collide. */
async function create(schema: string, client: PgClientLike): Promise<void> {
  const run = async (query: PgQuery) => (await client.query(query)).rows;
  await run({ text: "BEGIN" });
  try {
    await run({ text: "SELECT pg_advisory_xact_lock($1)", values: [ADVISORY_LOCK] });
    const [row] = (await run({
      text: `SELECT to_regnamespace($1) IS NOT NULL AS named, to_regprocedure($2) IS NOT NULL AS complete`,
      values: [quoted(schema), `${quoted(schema)}.version()`],
    })) as readonly { named: boolean; complete: boolean }[];
    if (row?.complete === true) await isThere(schema, run);
    else await run({ text: migration(schema, { withSchema: row?.named !== true }) });
    await run({ text: "COMMIT" });
  } catch (error) {
    await run({ text: "ROLLBACK" }).catch(() => undefined);
    throw error;
  }
}
