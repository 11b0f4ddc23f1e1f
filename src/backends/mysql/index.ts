import { type Backend, GIVEN, type Traits } from "../../core/backend.js";
import { installed } from "../../engine-kit/client-library.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import { DATABASE_TRAITS, REPLICATION_CAVEAT, SqlBackend } from "../sql/backend.js";
import { type Driver, PooledConnection } from "../sql/connection.js";
import { readPrefix } from "../sql/options.js";
import type { Routine } from "../sql/routines.js";
import { openPool } from "./client.js";
import { ENGINE, explain, meaningOf } from "./errors.js";
import { AS_USUAL, type MysqlSession, rowsOf } from "./library.js";
import { type MysqlOptions, type MysqlSettings, readMysqlOptions } from "./options.js";
import { migration as migrationOf, procedureName, schemaDriver } from "./schema.js";

export type { MysqlConnectionLike, MysqlPoolLike, MysqlPromisePool, MysqlQuery } from "./library.js";
export type { MysqlOptions } from "./options.js";

/**
 * Locks in tables of a MySQL or MariaDB database, for `createLocks`. The tables and procedures are made at the first use,
 * unless `schema` says otherwise.
 *
 * @example
 * ```ts
 * import { createLocks } from "locktender";
 * import { mysql } from "locktender/mysql";
 *
 * const locks = createLocks(mysql({ url: "mysql://127.0.0.1:3306/locks" }));
 * ```
 */
export function mysql(options: MysqlOptions = {}): Backend {
  const settings = readMysqlOptions(options);
  const traits: Traits = {
    ...DATABASE_TRAITS,
    engine: "mysql",
    reach: "network",
    caveats: [
      REPLICATION_CAVEAT,
      "With innodb_flush_log_at_trx_commit other than 1, a crash of the server may take back grants, too.",
      "Waiters look every 5 to 100 ms, with one statement for all of this process: the server cannot notify.",
      ...tlsCaveats(settings.target.address?.tls),
    ],
  };
  return new SqlBackend({
    connection: new PooledConnection(mysqlDriver(settings), settings),
    retentionMs: settings.retentionMs,
    client: () => (settings.target.address === undefined ? GIVEN : installed("mysql2")),
    traits: () => traits,
  });
}

/**
 * What `schema: "create"` would run, to be read, and to be run by a user who has the rights.
 *
 * @example
 * ```ts
 * import { migration } from "locktender/mysql";
 *
 * console.log(migration());
 * ```
 */
export function migration(prefix = "locktender"): string {
  return migrationOf(readPrefix(prefix));
}

function mysqlDriver(settings: MysqlSettings): Driver<MysqlSession> {
  const { prefix } = settings;
  const texts = new Map<Routine, string>();
  const textOf = (routine: Routine) => {
    const text = texts.get(routine) ?? callOf(prefix, routine);
    texts.set(routine, text);
    return text;
  };
  return {
    engine: ENGINE,
    renewalsPerCall: 100,
    open: () => openPool(settings),
    call: async (session, routine, values) => {
      // The library would send a bigint as a number that is not exact.
      const sent = values.map((value) => (typeof value === "bigint" ? String(value) : value));
      const [results] = await session.execute({ sql: textOf(routine), values: sent, ...AS_USUAL });
      return rowsOf(results);
    },
    meaningOf,
    explain,
    schema: schemaDriver(prefix),
  };
}

function callOf(prefix: string, { name, inputs }: Routine): string {
  const values = Object.keys(inputs).map(() => "?");
  return `CALL ${procedureName(prefix, name)}(${values.join(", ")})`;
}
