import type { LockError } from "../../core/errors.js";
import type { SchemaDriver } from "../sql/driver.js";
import { missingSchema, ReadOnlyServerError } from "../sql/errors.js";
import { routineName } from "../sql/routines.js";
import { migration, quoted } from "./dialect.js";
import { ENGINE, isolationError } from "./errors.js";
import { firstRow, type PgSession } from "./library.js";

/** "LKTD": a process that makes the tables waits for others that do. */
const ADVISORY_LOCK = 1_280_005_188;

/** How long it waits for them, in seconds. */
const LONGEST_WAIT_S = 10;

const SETTINGS =
  "SELECT current_setting('transaction_read_only') AS read_only, current_setting('transaction_isolation') AS isolation";

/** The function that is made last: a process that finds it takes everything else for granted. */
const MARKER = (schema: string) => `${quoted(schema)}.${routineName("breaking")}()`;

/** A schema of the database, with tables and functions in it. */
export function schemaDriver(schema: string): SchemaDriver<PgSession> {
  return {
    unusable,
    breaking: async (client) =>
      (await firstRow(client, { text: `SELECT ${MARKER(schema)} AS breaking`, columns: ["breaking"] }))
        ?.breaking,
    create: (client, check) => create(schema, client, check),
    missing: () =>
      missingSchema(
        `PostgreSQL has no schema "${schema}" with the tables and functions of the locks`,
        schema,
        "locktender/postgres",
      ),
    what: `the tables in the schema "${schema}"`,
  };
}

async function unusable(client: PgSession, where: string): Promise<LockError | undefined> {
  const row = await firstRow(client, { text: SETTINGS, columns: ["read_only", "isolation"] });
  if (row?.read_only === "on") return new ReadOnlyServerError(ENGINE, where);
  return row?.isolation === "read committed" ? undefined : isolationError(String(row?.isolation));
}

/** In one transaction, and one at a time: `IF NOT EXISTS` alone lets two of them collide. */
async function create(schema: string, client: PgSession, check: (breaking: unknown) => void): Promise<void> {
  const run = (text: string) => client.query({ text });
  const revisions = `${quoted(schema)}.revisions`;
  await run("BEGIN");
  try {
    // What is there already is no news, and some libraries print notices.
    await run(`SET LOCAL lock_timeout = '${LONGEST_WAIT_S}s'; SET LOCAL client_min_messages = warning`);
    await run(`SELECT pg_advisory_xact_lock(${ADVISORY_LOCK})`);
    // Using what is not there would end the transaction.
    const there = await firstRow(client, {
      text: `SELECT (to_regnamespace($1) IS NOT NULL)::text AS named, (to_regclass($2) IS NOT NULL)::text AS counted,
        (to_regprocedure($3) IS NOT NULL)::text AS complete`,
      values: [quoted(schema), revisions, MARKER(schema)],
      columns: ["named", "counted", "complete"],
    });
    if (there?.counted === "true") {
      const text = `SELECT coalesce(max(breaking), 0) AS breaking FROM ${revisions}`;
      check((await firstRow(client, { text, columns: ["breaking"] }))?.breaking);
    }
    if (there?.complete !== "true") await run(migration(schema, { withSchema: there?.named !== "true" }));
    await run("COMMIT");
  } catch (error) {
    await run("ROLLBACK").catch(() => undefined);
    throw error;
  }
}
