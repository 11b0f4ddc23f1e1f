import { invalidOption, partOf } from "../../core/errors.js";
import {
  type DatabaseAddress,
  readServerOptions,
  SERVER_OPTIONS,
  type ServerKind,
  type ServerOptions,
  type ServerSettings,
} from "../sql/address.js";
import { isPgPool, type PgPoolLike } from "./library.js";
import { PARAMETERS } from "./parameters.js";
import { hostsOf, isPostgresJs, type PostgresJsSql } from "./postgres-js.js";

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

const KIND: ServerKind = {
  engine: "postgres",
  isPool: isPgPool,
  whatPool:
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
