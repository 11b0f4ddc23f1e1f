import { accepted, flag, type ParameterTable, seconds, text, whole, words } from "../../engine-kit/url.js";
import {
  DATABASE_PARAMETERS,
  type DatabaseSets,
  LONGEST_CONNECT_MS,
  OTHER_TOOLS,
  SSL,
} from "../sql/parameters.js";

/** What the URL can set beyond the options: what a connection tells the server, and how it logs in. */
export interface PostgresParameters {
  readonly applicationName?: string;
  /** As `psql` and others hand them to the server: `-c name=value`. */
  readonly options?: string;
  readonly channelBinding?: "require" | "prefer";
}

type Sets = DatabaseSets | keyof PostgresParameters | "port" | "username" | "password" | "listen";

const encoding = accepted(/^(utf-?8|unicode|auto)$/i, "must be UTF8: a name may have any character in it");

export const PARAMETERS: ParameterTable<Sets> = {
  honoured: {
    ...DATABASE_PARAMETERS,
    ssl: SSL,
    channel_binding: words("channelBinding", { require: "require", prefer: "prefer", disable: null }),
    application_name: text("applicationName"),
    ApplicationName: text("applicationName"),
    options: text("options"),
    // A folder means a Unix socket in it.
    host: text("host"),
    port: whole("port"),
    user: text("username"),
    password: text("password"),
    dbname: text("database"),
    listen: flag("listen"),
    // As Prisma says it, for a pooler in transaction mode: nothing would be heard through it.
    pgbouncer: words("listen", { true: false, false: null }),
    loginTimeout: seconds("connectTimeout", LONGEST_CONNECT_MS),
    client_encoding: encoding,
    encoding,
    charset: encoding,
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
