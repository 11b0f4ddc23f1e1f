import { type Backend, GIVEN, type Traits } from "../../core/backend.js";
import { installed } from "../../engine-kit/client-library.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import { readPrefix } from "../sql/address.js";
import { SqlBackend } from "../sql/backend.js";
import type { Driver } from "../sql/driver.js";
import type { Poller } from "../sql/poller.js";
import type { Lent } from "../sql/pool.js";
import { PooledConnection } from "../sql/pooled-connection.js";
import { type Routine, routineName } from "../sql/routines.js";
import type { WaiterRegistry } from "../sql/waiter-registry.js";
import { type ListenerPool, listenerPool, openPool } from "./client.js";
import { callOf, columnsOf, migration as migrationOf, rowsOf } from "./dialect.js";
import { ENGINE, explain, isUnprepared, meaningOf } from "./errors.js";
import { AS_TEXTS, type PgClientLike, type PgQuery, type PgSession } from "./library.js";
import { Notifications } from "./notifications.js";
import { type PostgresOptions, type PostgresSettings, readPostgresOptions } from "./options.js";
import { schemaDriver } from "./schema.js";

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

/** What `schema: "create"` would run, to be read, and to be run by a user who has the rights. */
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

/** `onLibrary` is told which library was chosen to make connections of ours. */
function postgresDriver(settings: PostgresSettings, onLibrary: (name: string) => void): Driver<PgSession> {
  const { target, prefix } = settings;
  const calls = new Map<Routine, PgQuery>();
  // A statement that stays prepared is state of the session: not in a pool of the caller's, or behind a pooler.
  let prepares = target.pool === undefined;
  const known = (routine: Routine) => {
    const found = calls.get(routine);
    if (found !== undefined) return found;
    const made = {
      text: callOf(prefix, routine),
      types: AS_TEXTS,
      columns: columnsOf(routine),
      // Behind a pooler a name may be known from another client of ours: the same name must mean the same text.
      ...(prepares ? { name: `${prefix} ${routineName(routine.name)}` } : undefined),
    };
    calls.set(routine, made);
    return made;
  };
  return {
    engine: ENGINE,
    renewalsPerCall: 500,
    open: () => openPool(settings, onLibrary),
    call: (client, routine, values) => {
      return client.query({ ...known(routine), values }).then(
        (result) => rowsOf(routine, result),
        (error: unknown) => {
          if (prepares && isUnprepared(error)) {
            prepares = false;
            calls.clear();
          }
          throw error;
        },
      );
    },
    meaningOf,
    explain,
    schema: schemaDriver(prefix),
  };
}
