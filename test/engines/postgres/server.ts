import { readdirSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { asUser, giveTo, runAs } from "../../servers/as-user.js";
import { freePort } from "../../servers/free-port.js";
import { fileOf } from "../../servers/installed.js";
import { ServerProcess, type Stoppable } from "../../servers/server-process.js";

const USER = "postgres";

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
  const folder = fileOf("postgres", "/usr/lib/postgresql");
  const versions = readdirSync(folder).sort((a, b) => Number(a) - Number(b));
  return join(folder, versions.at(-1) ?? "", "bin", name);
}

export interface PostgresSetup {
  /** Lines of postgresql.conf. */
  readonly settings?: readonly string[];
  /** Files for the server alone to read, beside its data. */
  readonly files?: Readonly<Record<string, string>>;
  /** Makes the data, instead of an empty cluster. */
  readonly prepare?: (folder: string) => Promise<unknown>;
  /** Variables of its environment, as for a clock that is wrong. */
  readonly env?: Readonly<Record<string, string>>;
}

/** A server of our own. What it has written need not survive the machine, so it is never forced to the disk. */
export async function startPostgres(setup: PostgresSetup = {}): Promise<Postgres> {
  const port = await freePort();
  const settings = ["fsync = off", "listen_addresses = '127.0.0.1'", "max_connections = 300"];
  settings.push("unix_socket_directories = ''", "shared_buffers = 32MB");
  // In its folder: what lies elsewhere would outlive a server that is killed.
  settings.push("dynamic_shared_memory_type = mmap", ...(setup.settings ?? []));
  const variables = Object.entries(setup.env ?? {}).map(([name, value]) => `${name}=${value}`);
  const process = await ServerProcess.start({
    name: `postgres-${port}`,
    program: "env",
    args: [...variables, ...asUser(USER), binary("postgres"), "-D", "data", "-p", String(port)],
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
export function startStandby(
  primary: Pick<Postgres, "host" | "port">,
  { settings = [], env = {} }: Pick<PostgresSetup, "settings" | "env"> = {},
): Promise<Postgres> {
  return startPostgres({
    env,
    settings: [
      ...settings,
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

/** The server is many processes: the ids of all of them. */
export function processesOf({ process: { pid } }: Postgres): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
  return [pid, ...children.map(Number)];
}

export function signalAll(server: Postgres, signal: NodeJS.Signals): void {
  for (const pid of processesOf(server)) {
    try {
      process.kill(pid, signal);
    } catch (error) {
      // One that had to go was gone as soon as the others could run.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
}

/** As by a power cut. All of its processes at once: those that are left would still answer their clients. */
export async function crash(server: Postgres): Promise<void> {
  signalAll(server, "SIGKILL");
  await server.process.kill();
}

/** From now on that server refuses whatever writes, also in sessions that are open; or no longer. */
export async function setReadOnly(url: string, on: boolean): Promise<void> {
  await askPostgres(url, `ALTER SYSTEM SET default_transaction_read_only = ${on ? "on" : "off"}`);
  await askPostgres(url, "SELECT pg_reload_conf()");
  // Each of its processes hears of it by a signal.
  await sleep(200);
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
