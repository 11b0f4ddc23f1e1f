import { type Backend, GIVEN, type Traits } from "../../core/backend.js";
import { partOf } from "../../core/errors.js";
import { installed } from "../../engine-kit/client-library.js";
import { listIn } from "../../engine-kit/replies.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import { DATABASE_TRAITS, REPLICATION_CAVEAT, SqlBackend } from "../sql/backend.js";
import { type Driver, PooledConnection } from "../sql/connection.js";
import { readPrefix } from "../sql/options.js";
import type { Poller } from "../sql/poller.js";
import type { Lent } from "../sql/pool.js";
import { type Row, readBy, textOf } from "../sql/replies.js";
import { type Routine, routineName } from "../sql/routines.js";
import type { WaiterRegistry } from "../sql/waiter-registry.js";
import { type ListenerPool, listenerPool, openPool } from "./client.js";
import { ENGINE, explain, isUnprepared, meaningOf } from "./errors.js";
import { AS_TEXTS, type PgClientLike, type PgQuery, type PgSession } from "./library.js";
import { Notifications } from "./notifications.js";
import { type PostgresOptions, type PostgresSettings, readPostgresOptions } from "./options.js";
import { migration as migrationOf, quoted, schemaDriver } from "./schema.js";

export type { PgClientLike, PgPooledClient, PgPoolLike, PgQuery, PgSession } from "./library.js";
export type { PostgresOptions } from "./options.js";
export type { PostgresJsSql } from "./postgres-js.js";

/**
 * Locks in tables of a PostgreSQL database, for `createLocks`. The tables are made at the first use, unless `schema` says
 * otherwise.
 *
 * @example
 * ```ts
 * import { createLocks } from "locktender";
 * import { postgres } from "locktender/postgres";
 *
 * const locks = createLocks(postgres({ url: "postgres://127.0.0.1:5432" }));
 * ```
 */
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
  const listening = (waiters: WaiterRegistry, poller: Poller) => {
    const made = new Notifications({ listener, lend }, settings, waiters, poller);
    connection.onReadOnly(() => made.reconnect());
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
    traits: () => traitsOf(listen && notifications?.areDelivered !== false, settings),
    ...(listen ? { notifications: listening } : undefined),
  });
}

/**
 * What `schema: "create"` would run, to be read, and to be run by a user who has the rights.
 *
 * @example
 * ```ts
 * import { migration } from "locktender/postgres";
 *
 * console.log(migration());
 * ```
 */
export function migration(prefix = "locktender"): string {
  return migrationOf(readPrefix(prefix));
}

function traitsOf(notifications: boolean, { listen: wanted, target }: PostgresSettings): Traits {
  const why = wanted
    ? "LISTEN does not work here, as behind a pooler in transaction mode"
    : "No connection listens";
  return {
    ...DATABASE_TRAITS,
    engine: "postgres",
    reach: "network",
    // Where it does not, its claims do not stay.
    tellsHolder: true,
    ...(notifications ? { notifications, expiryGranularityMs: 20 } : undefined),
    caveats: [
      REPLICATION_CAVEAT,
      "With synchronous_commit, fsync or full_page_writes off, a crash of the server may take back grants, too.",
      ...(notifications
        ? []
        : [
            `${why}: waiters look every 5 to 100 ms, with one statement for all of this process.`,
            `${why}: a sticky lock is given back at once when it is not needed.`,
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
  const queryOf = (routine: Routine) => {
    const found = calls.get(routine);
    if (found !== undefined) return found;
    const made = {
      text: callOf(prefix, routine),
      types: AS_TEXTS,
      columns: routine.query === undefined ? ["answer"] : Object.keys(routine.columns),
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
      return client.query({ ...queryOf(routine), values }).then(
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

/** A call of a routine, with one parameter for each of its inputs. */
function callOf(schema: string, { name, inputs, query }: Routine): string {
  const values = Object.keys(inputs).map((_, index) => `$${index + 1}`);
  const call = `${quoted(schema)}.${routineName(name)}(${values.join(", ")})`;
  return query === undefined ? `SELECT ${call} AS answer` : `SELECT * FROM ${call}`;
}

/** Between the parts of an answer. It is in none of them: texts are JSON. */
const SEPARATOR = "\u001f";

/** The rows that a call has brought. */
function rowsOf(routine: Routine, result: { readonly rows: unknown }): readonly Row[] {
  const rows = readBy(listIn, partOf(result, "rows")) as readonly Row[];
  if (routine.query !== undefined) return rows;
  const columns = Object.keys(routine.columns);
  return rows.map((row) => {
    const parts = textOf(row, "answer").split(SEPARATOR);
    return Object.fromEntries(columns.map((column, index) => [column, parts[index] || null]));
  });
}
