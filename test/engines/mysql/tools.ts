import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type MysqlOptions, migration, mysql } from "locktender/mysql";
import { createPool, type Pool } from "mysql2/promise";
import { onTestFinished } from "vitest";
import { REVISION } from "#lib/backends/sql/routines.js";
import type { Backend } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";
import { database } from "../databases/shared-database.js";
import {
  newPrefix,
  type Rows,
  type TestedDatabase,
  type TestedSql,
  toolsFor,
  tracked,
  type Victim,
} from "../databases/tested-database.js";
import { askMariadb, startMariadb } from "./server.js";

export { eventually, newPrefix, queued, request, sleep } from "../databases/tested-database.js";

export const SERVER = await database("mariadb");

/** Ten rows; MariaDB has sequences for that, MySQL has not. */
const TEN =
  "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";

const sql: TestedSql = {
  begin: "START TRANSACTION",
  table: (prefix, table) => `\`${prefix}_${table}\``,
  traces: (prefix) => `SHOW TABLES LIKE '${prefix}%'`,
  drop: (prefix) =>
    `DROP TABLE ${prefix}_claims, ${prefix}_resources, ${prefix}_forced, ${prefix}_revisions; DROP PROCEDURE ${prefix}_breaking_r${REVISION}`,
  setBreaking: (prefix, revision) => `INSERT INTO ${prefix}_revisions VALUES (${revision}, ${revision})`,
  dropRoutines: (prefix) =>
    `DROP PROCEDURE ${prefix}_breaking_r${REVISION}; DROP PROCEDURE ${prefix}_claim_r${REVISION}`,
  oldClaim: (prefix, name, id) =>
    `CALL ${prefix}_claim('${name}', '${id}', 0, ${WHOLE}, ${WHOLE}, 30000000, 0, 0, 1, 0, 0, '{}', '""', '')`,
  oldRelease: (prefix, name, id) => `CALL ${prefix}_leave('${name}', '${id}', 1, 0, NULL, NULL)`,
  // Without any right it could not even come in.
  makeUser: (name) =>
    `CREATE USER '${name}'@'127.0.0.1'; GRANT CREATE TEMPORARY TABLES ON locks.* TO '${name}'@'127.0.0.1'`,
  allow: (_, name) => `GRANT EXECUTE ON locks.* TO '${name}'@'127.0.0.1'`,
  allowMaking: (name) =>
    `GRANT CREATE, CREATE ROUTINE, ALTER ROUTINE, EXECUTE, SELECT, INSERT, UPDATE, DELETE ON locks.* TO '${name}'@'127.0.0.1'`,
  countConnections: (name) =>
    `SELECT count(*) AS n FROM information_schema.processlist WHERE user = '${name}'`,
  dropUser: (name) => `DROP USER '${name}'@'127.0.0.1'`,
  holdMaking: (prefix) =>
    `SELECT GET_LOCK('locktender:${createHash("sha1").update(`locks:${prefix}`).digest("hex")}', 0) AS got`,
  fill: (prefix, names) =>
    `INSERT INTO ${prefix}_resources
     SELECT CONCAT('idle-', digits.n), (UNIX_TIMESTAMP() - 7200) * 1000000
     FROM (SELECT ROW_NUMBER() OVER () AS n FROM ${TEN} a, ${TEN} b, ${TEN} c, ${TEN} d, ${TEN} e, ${TEN} f) AS digits
     WHERE digits.n <= ${names}`,
  stuck: (prefix) =>
    `SELECT id AS pid FROM information_schema.processlist WHERE info LIKE 'UPDATE%${prefix}_resources%'`,
  kill: (pid) => `KILL ${pid}`,
};

export const DATABASE: TestedDatabase = {
  url: SERVER.url,
  user: "tester",
  page: "docs/engines/mysql.md",
  quote: "`",
  polling: {},
  oldMigration: "recorded-revision-2/mysql.txt",
  open: mysql,
  ask: askMariadb,
  pool: (url, max) => {
    const pool = poolOf(max, { uri: url });
    return {
      end: () => void pool.end(),
      backend: ({ url: _, ...options }) => backend({ pool, ...options }),
      connect: async () => {
        const connection = await pool.getConnection();
        return {
          query: async (text) => (await connection.query(text))[0] as unknown as Rows,
          // In the middle of a transaction, it may be: no other caller should get it.
          release: () => connection.destroy(),
          giveBack: () => connection.release(),
        };
      },
    };
  },
  start: startVictim,
  migration,
  runByHand,
  setReadOnly: async (url, on) => {
    await askMariadb(url, `SET GLOBAL read_only = ${on ? 1 : 0}`);
  },
  sql,
};

export const { open, begin } = toolsFor(DATABASE);

export function backend(options: MysqlOptions = {}): Backend {
  const target = options.pool === undefined ? { url: SERVER.url } : {};
  return tracked(mysql({ ...target, prefix: newPrefix(), ...options }));
}

export function poolOf(max = 4, more: object = {}): Pool {
  const pool = createPool({ uri: SERVER.url, connectionLimit: max, ...more });
  onTestFinished(() => pool.end().catch(() => undefined));
  return pool;
}

/** By the command line client. */
function runByHand(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const args = ["-h", "127.0.0.1", "-P", String(SERVER.port), "-u", "tester", "locks"];
    const child = execFile("mariadb", args, (error) => (error === null ? resolve() : reject(error)));
    child.stdin?.end(text);
  });
}

async function startVictim(env: Readonly<Record<string, string>> = {}): Promise<Victim> {
  // One that does not flush its log loses the last second when it is killed.
  const server = await startMariadb(["--innodb-flush-log-at-trx-commit=1"], { env });
  return {
    url: server.url,
    restart: () => server.process.restart(),
    freeze: () => server.process.pause(),
    thaw: () => server.process.resume(),
    log: () => readFile(join(server.process.folder, "output.log"), "utf8"),
    stop: () => server.stop(),
  };
}
