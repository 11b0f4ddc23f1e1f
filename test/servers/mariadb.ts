import { createConnection } from "mysql2/promise";
import { asUser, giveTo, runAs } from "./as-user.js";
import { freePort } from "./free-port.js";
import { ServerProcess, type Stoppable } from "./server-process.js";

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

/** A server of our own. What it has written need not survive the machine, so it is never forced to the disk. */
export async function startMariadb(settings: readonly string[] = []): Promise<Mariadb> {
  const port = await freePort();
  const url = `mysql://tester@127.0.0.1:${port}/locks`;
  // It takes relative paths for those of the folder in which it is installed.
  const here =
    '--datadir="$PWD/data" --socket="$PWD/socket" --pid-file="$PWD/pid" --init-file="$PWD/root.sql"';
  const start = `exec ${[...asUser(USER), MARIADB_PROGRAM.program].join(" ")} --no-defaults ${here} "$@"`;
  const process = await ServerProcess.start({
    name: `mariadb-${port}`,
    program: "/bin/sh",
    args: [
      ...["-c", start, "mariadb", `--port=${port}`, "--bind-address=127.0.0.1", "--skip-name-resolve"],
      ...["--max-connections=300", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M"],
      ...settings,
    ],
    files: { "root.sql": `${ROOT.join("\n")}\n` },
    prepare: async (folder) => {
      await giveTo(USER, folder);
      const install = ["mariadb-install-db", "--no-defaults", `--datadir=${folder}/data`, "--skip-test-db"];
      await runAs(USER, folder, [...install, "--auth-root-authentication-method=normal"]);
    },
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
