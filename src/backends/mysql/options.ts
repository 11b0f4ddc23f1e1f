import { isIP } from "node:net";
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
import type { MysqlPoolLike } from "./client.js";

export interface MysqlOptions extends ServerOptions {
  /** `mysql://user:password@host:3306/database` or `mariadb://`, with `?sslmode=require` for TLS. */
  readonly url?: string;
  /** A pool of `mysql2` instead; it stays yours to close. */
  readonly pool?: MysqlPoolLike;
  /** What tables and procedures begin with; `"locktender"` if not given. */
  readonly prefix?: string;
}

export interface MysqlSettings extends ServerSettings {
  readonly address: DatabaseAddress | undefined;
  readonly pool: MysqlPoolLike | undefined;
  readonly prefix: string;
}

const KNOWN = new Set<string>([
  "url",
  "pool",
  "prefix",
  "tls",
  "schema",
  "connections",
  "retention",
  "timeout",
] satisfies (keyof MysqlOptions)[]);

const PORTS = new Map([
  ["mysql", 3306],
  ["mariadb", 3306],
]);

export function readMysqlOptions(options: MysqlOptions): MysqlSettings {
  knownOptions(options, KNOWN, "mysql");
  const { url, pool, tls, prefix = "locktender" } = options;
  if ((url === undefined) === (pool === undefined))
    throw invalidOption("mysql: give either a url or a pool.");
  if (pool !== undefined && !isPool(pool)) throw invalidOption("pool: must be a pool of mysql2.");
  if (pool !== undefined && (tls !== undefined || options.connections !== undefined)) {
    throw invalidOption("tls, connections: a pool of yours has them already.");
  }
  const address = url === undefined ? undefined : readDatabaseUrl("mysql", url, PORTS, tls);
  if (address !== undefined && address.database === undefined) {
    throw invalidOption("mysql: the url must name a database, as in mysql://host/locks.");
  }
  if (address?.tls !== undefined && isIP(address.host) !== 0) {
    throw invalidOption(
      "mysql: for TLS the url must name the host, not its address: mysql2 cannot hold a certificate against an address.",
    );
  }
  return { ...readServerOptions(options), address, pool, prefix: readPrefix(prefix) };
}

function isPool(pool: unknown): boolean {
  if (typeof pool !== "object" || pool === null) return false;
  return "getConnection" in pool && typeof pool.getConnection === "function";
}
