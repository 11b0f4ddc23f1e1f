import { basename, join } from "node:path";
import { createConnection } from "mysql2/promise";
import { asUser, giveTo, runAs } from "../../servers/as-user.js";
import { freePort } from "../../servers/free-port.js";
import { fileOf, installedIn } from "../../servers/installed.js";
import { ServerProcess, type Stoppable } from "../../servers/server-process.js";

const USER = "mysql";

export const MARIADB_PROGRAM = { program: "/usr/sbin/mariadbd", package: "mariadb-server" };

export interface Mariadb extends Stoppable {
  /** A database of that server, for a user who may do everything. */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly process: ServerProcess;
}

const ROOT = [
  "CREATE DATABASE IF NOT EXISTS locks;",
  "CREATE USER IF NOT EXISTS 'tester'@'127.0.0.1';",
  "GRANT ALL ON *.* TO 'tester'@'127.0.0.1' WITH GRANT OPTION;",
];

/** MariaDB, or MySQL's own server, whichever is installed where the environment says. */
function serverProgram(): string {
  return fileOf("mariadb", "/usr/sbin/mariadbd", "/usr/sbin/mysqld");
}

export function isMysql(): boolean {
  return basename(serverProgram()) === "mysqld";
}

/** What both the installation and the server need to find their own files. */
function ownFiles(): string[] {
  return ["--no-defaults", `--basedir=${join(installedIn("mariadb"), "usr")}`];
}

function ownMessages(): string {
  return `--lc-messages-dir=${fileOf("mariadb", "/usr/share/mysql", "/usr/share/mariadb")}`;
}

async function makeData(folder: string): Promise<void> {
  const data = `--datadir=${join(folder, "data")}`;
  const install = isMysql()
    ? [serverProgram(), ...ownFiles(), ownMessages(), data, "--initialize-insecure"]
    : [fileOf("mariadb", "/usr/bin/mariadb-install-db"), ...ownFiles(), data, "--skip-test-db"];
  if (!isMysql()) install.push("--auth-root-authentication-method=normal");
  // A server that starts clears the folder of temporary tables, also of those of other servers.
  install.push(`--tmpdir=${folder}`);
  await runAs(USER, folder, install);
}

/** Settings that only MySQL's own server has: its second protocol is not wanted, nor is a log forced to the disk. */
const MYSQL_SETTINGS = ["--mysqlx=OFF", "--secure-file-priv=", "--sync-binlog=0"];

export interface MariadbSetup {
  readonly port?: number;
  /** Variables of its environment, as for a clock that is wrong. */
  readonly env?: Readonly<Record<string, string>>;
  readonly startTimeoutMs?: number;
}

/** A server of our own. What it has written need not survive the machine, so it is never forced to the disk. */
export async function startMariadb(
  settings: readonly string[] = [],
  { port: wanted, env = {}, startTimeoutMs }: MariadbSetup = {},
): Promise<Mariadb> {
  const port = wanted ?? (await freePort());
  const url = `mysql://tester@127.0.0.1:${port}/locks`;
  // It takes relative paths for those of the folder in which it is installed.
  const here =
    '--datadir="$PWD/data" --tmpdir="$PWD" --socket="$PWD/socket" --pid-file="$PWD/pid" --init-file="$PWD/root.sql"';
  const program = [...asUser(USER), serverProgram(), ...ownFiles(), ownMessages()];
  // Not sooner: what is preloaded would also be looked for by the shell and by the programs before the server.
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const start = `exec env ${[...variables, ...program].join(" ")} ${here} "$@"`;
  const process = await ServerProcess.start({
    name: `${isMysql() ? "mysql" : "mariadb"}-${port}`,
    program: "/bin/sh",
    args: [
      ...["-c", start, "mariadb", `--port=${port}`, "--bind-address=127.0.0.1", "--skip-name-resolve"],
      ...["--max-connections=300", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M"],
      ...(isMysql() ? MYSQL_SETTINGS : []),
      ...settings,
    ],
    files: { "root.sql": `${ROOT.join("\n")}\n` },
    prepare: async (folder) => {
      await giveTo(USER, folder);
      await makeData(folder);
    },
    ...(startTimeoutMs !== undefined && { startTimeoutMs }),
    answers: () => askMariadb(url, "SELECT 1"),
  });
  return { url, host: "127.0.0.1", port, process, stop: () => process.stop() };
}

/** One statement, or several, on a connection of their own. */
export async function askMariadb(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const connection = await createConnection({ uri: url, multipleStatements: true, connectTimeout: 2_000 });
  connection.on("error", () => {});
  try {
    const [results] = await connection.query(sql);
    return results as Record<string, unknown>[];
  } finally {
    await connection.end();
  }
}
