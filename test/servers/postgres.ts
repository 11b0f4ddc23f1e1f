import { existsSync, readdirSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "pg";
import { asUser, giveTo, runAs } from "./as-user.js";
import { freePort } from "./free-port.js";
import { ServerProcess, type Stoppable } from "./server-process.js";

const USER = "postgres";
const VERSIONS = "/usr/lib/postgresql";

export const POSTGRES_PROGRAM = { program: "/usr/share/postgresql-common/pg_wrapper", package: "postgresql" };
export const PGBOUNCER_PROGRAM = { program: "/usr/sbin/pgbouncer", package: "pgbouncer" };

export interface Postgres extends Stoppable {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly process: ServerProcess;
}

/** Debian keeps the programs of every version apart, and not on PATH. */
export function binary(name: string): string {
  const versions = existsSync(VERSIONS) ? readdirSync(VERSIONS).sort((a, b) => Number(a) - Number(b)) : [];
  const newest = versions.at(-1);
  return newest === undefined ? name : join(VERSIONS, newest, "bin", name);
}

export interface PostgresSetup {
  /** Lines of postgresql.conf. */
  readonly settings?: readonly string[];
  /** Files for the server alone to read, beside its data. */
  readonly files?: Readonly<Record<string, string>>;
  /** Makes the data, instead of an empty cluster. */
  readonly prepare?: (folder: string) => Promise<unknown>;
}

/** A server of our own. What it has written need not survive the machine, so it is never forced to the disk. */
export async function startPostgres(setup: PostgresSetup = {}): Promise<Postgres> {
  const port = await freePort();
  const settings = ["fsync = off", "listen_addresses = '127.0.0.1'", "max_connections = 300"];
  settings.push("unix_socket_directories = ''", "shared_buffers = 32MB");
  // In its folder: what lies elsewhere would outlive a server that is killed.
  settings.push("dynamic_shared_memory_type = mmap", ...(setup.settings ?? []));
  const [program = "", ...before] = [...asUser(USER), binary("postgres")];
  const process = await ServerProcess.start({
    name: `postgres-${port}`,
    program,
    args: [...before, "-D", "data", "-p", String(port)],
    // At SIGTERM it would wait for its clients to leave.
    stopSignal: "SIGINT",
    prepare: async (folder) => {
      await giveTo(USER, folder);
      for (const [name, text] of Object.entries(setup.files ?? {})) {
        await writeFile(join(folder, name), text, { mode: 0o600 });
        await giveTo(USER, join(folder, name));
      }
      if (setup.prepare === undefined) {
        const initdb = [binary("initdb"), "-D", "data", "-A", "trust", "-U", USER, "--no-sync", "-E", "UTF8"];
        await runAs(USER, folder, initdb);
      } else await setup.prepare(folder);
      await writeFile(join(folder, "data", "postgresql.auto.conf"), settings.join("\n"));
    },
    answers: () => askPostgres(`postgres://${USER}@127.0.0.1:${port}/postgres`, "SELECT 1"),
  });
  const url = `postgres://${USER}@127.0.0.1:${port}/postgres`;
  return { url, host: "127.0.0.1", port, process, stop: () => process.stop() };
}

/** A streaming standby of that server: it answers, and changes nothing. */
export function startStandby(primary: Pick<Postgres, "host" | "port">): Promise<Postgres> {
  return startPostgres({
    settings: [
      "hot_standby = on",
      `primary_conninfo = 'host=${primary.host} port=${primary.port} user=${USER}'`,
    ],
    prepare: async (folder) => {
      const from = ["-h", primary.host, "-p", String(primary.port), "-U", USER];
      await runAs(USER, folder, [binary("pg_basebackup"), ...from, "-D", "data", "-c", "fast", "--no-sync"]);
      await writeFile(join(folder, "data", "standby.signal"), "");
    },
  });
}

/** PgBouncer in transaction mode, in front of that server. */
export async function startPgBouncer(server: Pick<Postgres, "host" | "port">): Promise<Postgres> {
  const port = await freePort();
  const database = `* = host=${server.host} port=${server.port} user=${USER}`;
  const lines = ["[databases]", database, "[pgbouncer]"];
  lines.push("listen_addr = 127.0.0.1", `listen_port = ${port}`, "unix_socket_dir =", "auth_type = any");
  lines.push("pool_mode = transaction", "default_pool_size = 3", "max_client_conn = 200");
  const [program = "", ...before] = [...asUser(USER), PGBOUNCER_PROGRAM.program];
  const process = await ServerProcess.start({
    name: `pgbouncer-${port}`,
    program,
    args: [...before, "pgbouncer.ini"],
    files: { "pgbouncer.ini": lines.join("\n") },
    prepare: (folder) => giveTo(USER, folder),
    answers: () => askPostgres(`postgres://${USER}@127.0.0.1:${port}/postgres`, "SELECT 1"),
  });
  const url = `postgres://${USER}@127.0.0.1:${port}/postgres`;
  return { url, host: "127.0.0.1", port, process, stop: () => process.stop() };
}

/** One statement on a connection of its own. */
export async function askPostgres(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on("error", () => {});
  await client.connect();
  try {
    const result = await client.query(text);
    return (Array.isArray(result) ? result.at(-1) : result).rows;
  } finally {
    await client.end();
  }
}
