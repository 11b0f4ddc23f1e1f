import { type Backend, GIVEN, type Traits } from "../../core/backend.js";
import { installed } from "../../engine-kit/client-library.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import { readPrefix } from "../sql/address.js";
import { SqlBackend } from "../sql/backend.js";
import { PooledConnection } from "../sql/pooled-connection.js";
import { migration as migrationOf } from "./dialect.js";
import { mysqlDriver } from "./driver.js";
import { type MysqlOptions, readMysqlOptions } from "./options.js";

export type { MysqlConnectionLike, MysqlPoolLike, MysqlPromisePool, MysqlQuery } from "./library.js";
export type { MysqlOptions } from "./options.js";

const TRAITS: Traits = {
  engine: "mysql",
  reach: "network",
  fencing: true,
  queueing: true,
  notifications: false,
  ttl: "claim",
  expiryGranularityMs: 100,
  caveats: [
    "Asynchronous replication: if a replica is promoted that does not have the last commits, two may believe they hold a lock. Fencing tokens contain that, if the new server's clock is not more than an hour behind, or was not seen by a process that comes to a name first.",
    "With innodb_flush_log_at_trx_commit other than 1, a crash of the server may take back grants, too.",
    "Waiters look every 5 to 100 ms, with one statement for all of this process: the server cannot ring.",
  ],
};

/** Locks in tables of a MySQL or MariaDB database. */
export function mysql(options: MysqlOptions = {}): Backend {
  const settings = readMysqlOptions(options);
  const traits = { ...TRAITS, caveats: [...TRAITS.caveats, ...tlsCaveats(settings.target.address?.tls)] };
  return new SqlBackend({
    connection: new PooledConnection(mysqlDriver(settings), settings),
    retentionMs: settings.retentionMs,
    client: () => (settings.target.address === undefined ? GIVEN : installed("mysql2")),
    traits: () => traits,
  });
}

/** What `schema: "create"` would run, to be read, and run by somebody who may. */
export function migration(prefix = "locktender"): string {
  return migrationOf(readPrefix(prefix));
}
