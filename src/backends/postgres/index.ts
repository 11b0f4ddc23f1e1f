import { type Backend, GIVEN, type Traits } from "../../core/backend.js";
import { installed } from "../../engine-kit/client-library.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import { readPrefix } from "../sql/address.js";
import { SqlBackend } from "../sql/backend.js";
import type { Poller } from "../sql/poller.js";
import type { Lent } from "../sql/pool.js";
import { PooledConnection } from "../sql/pooled-connection.js";
import type { WaiterRegistry } from "../sql/waiter-registry.js";
import { type ListenerPool, listenerPool } from "./client.js";
import { migration as migrationOf } from "./dialect.js";
import { postgresDriver } from "./driver.js";
import type { PgClientLike } from "./library.js";
import { Notifications } from "./notifications.js";
import { type PostgresOptions, type PostgresSettings, readPostgresOptions } from "./options.js";

export type { PgClientLike, PgPooledClient, PgPoolLike, PgQuery, PgSession } from "./library.js";
export type { PostgresOptions } from "./options.js";
export type { PostgresJsSql } from "./postgres-js.js";

/** Locks in tables of a PostgreSQL database. */
export function postgres(options: PostgresOptions = {}): Backend {
  const settings = readPostgresOptions(options);
  const { target, listen } = settings;
  let library: string | undefined;
  const onLibrary = (name: string) => {
    library = name;
  };
  const connection = new PooledConnection(postgresDriver(settings, onLibrary), settings);
  const lend = () => connection.lend();
  const listener: ListenerPool =
    target.address === undefined
      ? { lend: lend as () => Promise<Lent<PgClientLike>>, end: async () => {} }
      : listenerPool(settings, target.address);
  let notifications: Notifications | undefined;
  const listening = (watching: WaiterRegistry, poller: Poller) => {
    const made = new Notifications({ listener, lend }, settings, watching, poller);
    connection.onMove(() => made.reconnect());
    notifications = made;
    return made;
  };
  return new SqlBackend({
    connection,
    retentionMs: settings.retentionMs,
    client: () => {
      if (target.address === undefined || settings.sql !== undefined) return GIVEN;
      return library === undefined ? undefined : installed(library);
    },
    traits: () => traitsOf(listen && notifications?.deaf !== true, settings),
    ...(listen ? { notifications: listening } : undefined),
  });
}

/** What `schema: "create"` would run, to be read, and run by somebody who may. */
export function migration(prefix = "locktender"): string {
  return migrationOf(readPrefix(prefix));
}

function traitsOf(notifications: boolean, { listen: wanted, target }: PostgresSettings): Traits {
  const polling = "waiters look every 5 to 100 ms, with one statement for all of this process.";
  return {
    engine: "postgres",
    reach: "network",
    fencing: true,
    queueing: true,
    notifications,
    ttl: "claim",
    expiryGranularityMs: notifications ? 20 : 100,
    caveats: [
      "Asynchronous replication: if a replica is promoted that does not have the last commits, two may believe they hold a lock. Fencing tokens contain that, if the new server's clock is not more than an hour behind, or was not seen by a process that comes to a name first.",
      "With synchronous_commit, fsync or full_page_writes off, a crash of the server may take back grants, too.",
      ...(notifications
        ? []
        : [
            wanted
              ? `LISTEN does not work here, as behind a pooler in transaction mode: ${polling}`
              : `No connection listens: ${polling}`,
          ]),
      ...tlsCaveats(target.address?.tls),
    ],
  };
}
