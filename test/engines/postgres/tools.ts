import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { migration, type PostgresOptions, postgres } from "locktender/postgres";
import { Pool } from "pg";
import { onTestFinished } from "vitest";
import { REVISION } from "#lib/backends/sql/routines.js";
import type { Backend } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";
import { freeze } from "../../servers/server-process.js";
import { database } from "../databases/shared-database.js";
import {
  newPrefix,
  sleep,
  type TestedDatabase,
  type TestedSql,
  toolsFor,
  tracked,
  type Victim,
} from "../databases/tested-database.js";
import { askPostgres, crash, processesOf, setReadOnly, signalAll, startPostgres } from "./server.js";

export { eventually, newPrefix, queued, request, sleep } from "../databases/tested-database.js";

export const SERVER = await database("postgres");

const sql: TestedSql = {
  begin: "BEGIN",
  table: (prefix, table) => `"${prefix}".${table}`,
  traces: (prefix) => `SELECT 1 FROM pg_namespace WHERE nspname = '${prefix}'`,
  drop: (prefix) => `DROP SCHEMA "${prefix}" CASCADE`,
  setBreaking: (prefix, revision) => `INSERT INTO "${prefix}".revisions VALUES (${revision}, ${revision})`,
  dropRoutines: (prefix) =>
    `DROP FUNCTION "${prefix}".breaking_r${REVISION}; DROP FUNCTION "${prefix}".claim_r${REVISION}`,
  oldClaim: (prefix, name, id) =>
    `SELECT split_part(answer, chr(31), 1) AS verdict, split_part(answer, chr(31), 2) AS ticket
     FROM "${prefix}".claim('${name}', '${id}', 0, ${WHOLE}, ${WHOLE}, 30000000, 0, 0, 1, 0, 0, '{}', '""', '') AS answer`,
  oldRelease: (prefix, name, id) =>
    `SELECT "${prefix}".leave('${name}', '${id}', 1, 0, NULL, NULL) AS was_there`,
  makeUser: (name) => `CREATE ROLE ${name} LOGIN`,
  allow: (prefix, name) =>
    `GRANT USAGE ON SCHEMA "${prefix}" TO ${name};
     GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "${prefix}" TO ${name}`,
  allowMaking: (name) => `GRANT CREATE ON DATABASE postgres TO ${name}`,
  countConnections: (name) => `SELECT count(*) AS n FROM pg_stat_activity WHERE usename = '${name}'`,
  dropUser: (name) => `DROP OWNED BY ${name} CASCADE; DROP ROLE ${name}`,
  holdMaking: () => "SELECT pg_advisory_xact_lock(1280005188)",
  fill: (prefix, names) =>
    `INSERT INTO "${prefix}".resources
     SELECT 'idle-' || n, (extract(epoch FROM clock_timestamp() - interval '2 hours') * 1000000)::bigint
     FROM generate_series(1, ${names}) AS n`,
  stuck: (prefix) =>
    `SELECT pid FROM pg_stat_activity
     WHERE wait_event_type = 'Lock' AND query LIKE '%"${prefix}".claim%(%' AND pid <> pg_backend_pid()`,
  kill: (pid) => `SELECT pg_terminate_backend(${pid})`,
};

export const DATABASE: TestedDatabase = {
  url: SERVER.url,
  user: "postgres",
  page: "docs/engines/postgres.md",
  quote: '"',
  polling: { listen: false },
  oldMigration: "recorded-revision-2/postgres.txt",
  open: postgres,
  ask: askPostgres,
  pool: (url, max) => {
    const pool = poolOf(url, max);
    return {
      end: () => void pool.end(),
      backend: ({ url: _, ...options }) => backend({ pool, ...options }),
      connect: async () => {
        const client = await pool.connect();
        return {
          query: async (text) => (await client.query(text)).rows,
          // In the middle of a transaction, it may be: no other caller should get it.
          release: () => client.release(true),
          giveBack: () => client.release(),
        };
      },
    };
  },
  start: startVictim,
  migration,
  runByHand: async (text) => {
    await askPostgres(SERVER.url, text);
  },
  setReadOnly,
  sql,
};

export const { open, begin } = toolsFor(DATABASE);

export function backend(options: PostgresOptions = {}): Backend {
  const target = options.pool === undefined ? { url: SERVER.url } : {};
  return tracked(postgres({ ...target, prefix: newPrefix(), ...options }));
}

export function poolOf(url = SERVER.url, max = 4): Pool {
  const pool = new Pool({ connectionString: url, max });
  pool.on("error", () => {});
  onTestFinished(() => (pool.ending ? undefined : pool.end()));
  return pool;
}

async function startVictim(env: Readonly<Record<string, string>> = {}): Promise<Victim> {
  const server = await startPostgres({ env });
  return {
    url: server.url,
    // All of its processes: those that are left would keep a new one from starting.
    restart: async () => {
      await crash(server);
      await sleep(100);
      await server.process.restart();
    },
    freeze: () => processesOf(server).forEach(freeze),
    thaw: () => signalAll(server, "SIGCONT"),
    log: () => readFile(join(server.process.folder, "output.log"), "utf8"),
    stop: () => server.stop(),
  };
}
