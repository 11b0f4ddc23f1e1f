import { invalidOption, partOf } from "../../core/errors.js";
import { accepted, flag, type ParameterTable, seconds, text, whole, words } from "../../engine-kit/url.js";
import {
  DATABASE_PARAMETERS,
  type DatabaseAddress,
  type DatabaseSets,
  LONGEST_CONNECT_MS,
  named,
  OTHER_TOOLS,
  readServerOptions,
  SERVER_OPTIONS,
  type ServerKind,
  type ServerOptions,
  type ServerSettings,
  SSL,
} from "../sql/options.js";
import { isPgPool, type PgPoolLike, type PostgresParameters } from "./library.js";
import { hostsOf, isPostgresJs, type PostgresJsSql } from "./postgres-js.js";

/** Which database, by `url`, `pool` or `sql`, and how it is used. */
export interface PostgresOptions extends ServerOptions {
  /** `postgres://user:password@host:5432/database`, with `?sslmode=require` for TLS. */
  readonly url?: string | undefined;
  /** A pool of `pg` instead; it stays yours to close. */
  readonly pool?: PgPoolLike | undefined;
  /** Or what `postgres()` of postgres.js has made: with its settings we make connections of our own. */
  readonly sql?: PostgresJsSql | undefined;
  /** The schema in the database that holds the tables; `"locktender"` if not given. */
  readonly prefix?: string | undefined;
  /** `false`: no connection is kept for LISTEN, and waiters poll. */
  readonly listen?: boolean | undefined;
}

export interface PostgresSettings extends ServerSettings<PgPoolLike> {
  readonly listen: boolean;
  /** The object whose settings our connections use; without it, they use the URL. */
  readonly sql: PostgresJsSql | undefined;
}

export const KNOWN: ReadonlySet<string> = new Set([...SERVER_OPTIONS, "sql", "listen"]);

type Sets = DatabaseSets | keyof PostgresParameters | "port" | "username" | "password" | "listen";

const encoding = accepted(/^(utf-?8|unicode|auto)$/i, "must be UTF8: a name may have any character in it");

export const PARAMETERS: ParameterTable<Sets> = {
  honoured: {
    ...DATABASE_PARAMETERS,
    ssl: SSL,
    channel_binding: words("channelBinding", { require: "require", prefer: "prefer", disable: null }),
    ...named(["application_name", "ApplicationName"], text("applicationName")),
    options: text("options"),
    // A folder means a Unix socket in it.
    host: text("host"),
    port: whole("port"),
    user: text("username"),
    password: text("password"),
    dbname: text("database"),
    listen: flag("listen"),
    // As Prisma says it, for a pooler in transaction mode: it delivers no notification.
    pgbouncer: words("listen", { true: false, false: null }),
    loginTimeout: seconds("connectTimeout", LONGEST_CONNECT_MS),
    ...named(["client_encoding", "encoding", "charset"], encoding),
    // Encryption by Kerberos is never used, so one that must be is refused.
    gssencmode: accepted(/^(disable|prefer)$/, "must be disable or prefer"),
    // Of other tools: where their tables are. Locks have a schema of their own, which `prefix` names.
    schema: accepted(
      /^(?!(create|verify)$)/,
      'is where other tools have their tables. The option is given as connect(url, { engine: { schema: "verify" } })',
    ),
  },
  withoutEffect: [
    ...OTHER_TOOLS,
    "currentSchema",
    "search_path",
    "fallback_application_name",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "tcp_user_timeout",
    "load_balance_hosts",
    "pool_max_conns",
    "pool_min_conns",
    "prepareThreshold",
    "single_use_connections",
    "supa",
  ],
};

const KIND: ServerKind = {
  engine: "postgres",
  isPool: isPgPool,
  poolMustBe:
    "a pool of pg. A single client of it, or what another library makes, cannot be used; what postgres.js makes is given as postgres({ sql }).",
  ports: new Map([
    ["postgres", 5432],
    ["postgresql", 5432],
  ]),
  parameters: PARAMETERS,
  known: KNOWN,
};

export function readPostgresOptions(given: PostgresOptions): PostgresSettings {
  const sqlGiven = partOf(given, "sql");
  const known = sqlGiven === undefined ? undefined : addressOf(sqlGiven, given);
  const { settings, options } = readServerOptions<PgPoolLike, PostgresOptions>(KIND, given, known);
  const { sql, listen = true } = options;
  if (typeof listen !== "boolean") throw invalidOption("listen: must be true or false.");
  const { address } = settings.target;
  if (address?.parameters.channelBinding === "require" && address.tls === undefined) {
    throw invalidOption("postgres: channel_binding=require needs TLS. Add sslmode=require to the URL.");
  }
  // The only connection of a pool cannot be kept for listening.
  const isAlone = partOf(partOf(settings.target.pool, "options"), "max") === 1;
  return { ...settings, sql, listen: listen && !isAlone };
}

/** What the settings of the caller's `sql` say. */
function addressOf(sql: unknown, { url, pool, tls }: PostgresOptions): DatabaseAddress {
  if (url !== undefined || pool !== undefined) throw invalidOption("postgres: give a url, a pool or sql.");
  if (tls !== undefined) throw invalidOption("tls: sql has it already.");
  if (!isPostgresJs(sql)) {
    throw invalidOption(
      "sql: must be what postgres() of postgres.js makes. A transaction or a reserved connection of it cannot be used.",
    );
  }
  return { scheme: "postgres", hosts: hostsOf(sql), database: undefined, tls: undefined, parameters: {} };
}
