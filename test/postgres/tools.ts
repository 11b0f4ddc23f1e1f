import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { migration, type PostgresOptions, postgres } from "locktender/postgres";
import { Pool } from "pg";
import { onTestFinished } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import {
  newPrefix,
  sleep,
  type TestedDatabase,
  type TestedSql,
  toolsFor,
  tracked,
  type Victim,
} from "../databases/tested.js";
import { askPostgres, startPostgres } from "../servers/postgres.js";
import { freeze } from "../servers/server-process.js";
import { database } from "../support/database.js";

export { eventually, newPrefix, queued, request, sleep } from "../databases/tested.js";

export const SERVER = await database("postgres");

const sql: TestedSql = {
  begin: "BEGIN",
  table: (prefix, table) => `"${prefix}".${table}`,
  traces: (prefix) => `SELECT 1 FROM pg_namespace WHERE nspname = '${prefix}'`,
  drop: (prefix) => `DROP SCHEMA "${prefix}" CASCADE`,
  setVersion: (prefix, version) =>
    `CREATE OR REPLACE FUNCTION "${prefix}".version() RETURNS integer LANGUAGE sql AS 'SELECT ${version}'`,
  makeUser: (name) => `CREATE ROLE ${name} LOGIN`,
  allow: (prefix, name) =>
    `GRANT USAGE ON SCHEMA "${prefix}" TO ${name};
     GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "${prefix}" TO ${name}`,
  allowMaking: (name) => `GRANT CREATE ON DATABASE postgres TO ${name}`,
  dropUser: (name) => `DROP OWNED BY ${name} CASCADE; DROP ROLE ${name}`,
  holdMaking: () => "SELECT pg_advisory_xact_lock(1280005188)",
  fill: (prefix, names) =>
    `INSERT INTO "${prefix}".resources
     SELECT 'idle-' || n, (extract(epoch FROM clock_timestamp() - interval '2 hours') * 1000000)::bigint
     FROM generate_series(1, ${names}) AS n`,
  stuck: (prefix) =>
    `SELECT pid FROM pg_stat_activity
     WHERE wait_event_type = 'Lock' AND query LIKE '%"${prefix}".claim(%' AND pid <> pg_backend_pid()`,
  kill: (pid) => `SELECT pg_terminate_backend(${pid})`,
};

export const DATABASE: TestedDatabase = {
  url: SERVER.url,
  user: "postgres",
  page: "docs/engines/postgres.md",
  quote: '"',
  open: postgres,
  ask: askPostgres,
  pool: (url, max) => {
    const pool = poolOf(url, max);
    return {
      backend: ({ url: _, ...options }) => backend({ pool, ...options }),
      connect: async () => {
        const client = await pool.connect();
        return {
          query: async (text) => (await client.query(text)).rows,
          // In the middle of a transaction, it may be: nobody else should get it.
          release: () => client.release(true),
        };
      },
    };
  },
  start: startVictim,
  migration,
  runByHand: async (text) => {
    await askPostgres(SERVER.url, text);
  },
  setReadOnly: async (url, on) => {
    await askPostgres(url, `ALTER SYSTEM SET default_transaction_read_only = ${on ? "on" : "off"}`);
    await askPostgres(url, "SELECT pg_reload_conf()");
    // Each of its processes hears of it by a signal.
    await sleep(200);
  },
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
  onTestFinished(() => pool.end());
  return pool;
}

async function startVictim(): Promise<Victim> {
  const server = await startPostgres();
  // The server is many processes.
  const processes = () => {
    const { pid } = server.process;
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
    return [pid, ...children.map(Number)];
  };
  const signal = (name: NodeJS.Signals) => {
    for (const pid of processes()) {
      try {
        process.kill(pid, name);
      } catch (error) {
        // One that had to go was gone as soon as the others could run.
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
      }
    }
  };
  return {
    url: server.url,
    // All of them at once: those that are left would keep a new one from starting.
    restart: async () => {
      signal("SIGKILL");
      await server.process.kill();
      await sleep(100);
      await server.process.restart();
    },
    freeze: () => processes().forEach(freeze),
    thaw: () => signal("SIGCONT"),
    log: () => readFile(join(server.process.folder, "output.log"), "utf8"),
    stop: () => server.stop(),
  };
}
