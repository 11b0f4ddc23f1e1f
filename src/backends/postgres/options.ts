import { invalidOption } from "../../core/errors.js";
import { knownOptions } from "../../core/options.js";
import {
  type DatabaseAddress,
  readDatabaseUrl,
  readPrefix,
  readServerOptions,
  type ServerOptions,
  type ServerSettings,
} from "../sql/address.js";
import type { PgPoolLike } from "./client.js";

export interface PostgresOptions extends ServerOptions {
  /** `postgres://user:password@host:5432/database`, with `?sslmode=require` for TLS. */
  readonly url?: string;
  /** A pool of `pg` instead; it stays yours to close. */
  readonly pool?: PgPoolLike;
  /** The schema in the database that holds the tables; `"locktender"` if not given. */
  readonly prefix?: string;
  /** `false`: no connection is kept for LISTEN, and waiters poll. */
  readonly listen?: boolean;
}

export interface PostgresSettings extends ServerSettings {
  readonly address: DatabaseAddress | undefined;
  readonly pool: PgPoolLike | undefined;
  readonly schemaName: string;
  readonly listen: boolean;
}

const KNOWN = new Set<string>([
  "url",
  "pool",
  "prefix",
  "listen",
  "tls",
  "schema",
  "connections",
  "retention",
  "timeout",
] satisfies (keyof PostgresOptions)[]);

const PORTS = new Map([
  ["postgres", 5432],
  ["postgresql", 5432],
]);

export function readPostgresOptions(options: PostgresOptions): PostgresSettings {
  knownOptions(options, KNOWN, "postgres");
  const { url, pool, tls, prefix = "locktender", listen = true } = options;
  if ((url === undefined) === (pool === undefined))
    throw invalidOption("postgres: give either a url or a pool.");
  if (
    pool !== undefined &&
    (typeof pool !== "object" || pool === null || typeof pool.connect !== "function")
  ) {
    throw invalidOption("pool: must be a pool of pg.");
  }
  if (pool !== undefined && (tls !== undefined || options.connections !== undefined)) {
    throw invalidOption("tls, connections: a pool of yours has them already.");
  }
  if (typeof listen !== "boolean") throw invalidOption("listen: must be true or false.");
  return {
    ...readServerOptions(options),
    address: url === undefined ? undefined : readDatabaseUrl("postgres", url, PORTS, tls),
    pool,
    schemaName: readPrefix(prefix),
    listen,
  };
}
