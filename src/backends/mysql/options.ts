import { isIP } from "node:net";
import { invalidOption } from "../../core/errors.js";
import {
  readServerOptions,
  SERVER_OPTIONS,
  type ServerKind,
  type ServerOptions,
  type ServerSettings,
} from "../sql/address.js";
import { isMysqlPool, type MysqlPoolLike } from "./library.js";
import { PARAMETERS } from "./parameters.js";

export interface MysqlOptions extends ServerOptions {
  /** `mysql://user:password@host:3306/database` or `mariadb://`, with `?sslmode=require` for TLS. */
  readonly url?: string | undefined;
  /** A pool of `mysql2` instead; it stays yours to close. */
  readonly pool?: MysqlPoolLike | undefined;
  /** What tables and procedures begin with; `"locktender"` if not given. */
  readonly prefix?: string | undefined;
}

export type MysqlSettings = ServerSettings<MysqlPoolLike>;

export const KNOWN: ReadonlySet<string> = new Set(SERVER_OPTIONS);

const KIND: ServerKind = {
  engine: "mysql",
  isPool: isMysqlPool,
  whatPool:
    'a pool of mysql2, as its createPool makes it. A single connection, a cluster of pools, or a pool of the packages "mariadb" or "mysql" cannot be used; mysql2 speaks to MariaDB, too.',
  ports: new Map([
    ["mysql", 3306],
    ["mariadb", 3306],
  ]),
  parameters: PARAMETERS,
  known: KNOWN,
};

export function readMysqlOptions(options: MysqlOptions): MysqlSettings {
  const { settings } = readServerOptions<MysqlPoolLike, MysqlOptions>(KIND, options);
  const { address } = settings.target;
  if (address !== undefined && address.database === undefined) {
    throw invalidOption("mysql: the url must name a database, as in mysql://host/locks.");
  }
  if (address?.tls?.verify === "full" && address.hosts.some(({ host }) => isIP(host) !== 0)) {
    throw invalidOption(
      "mysql: for TLS the url must name the host, not its address: mysql2 cannot hold a certificate against an address.",
    );
  }
  return settings;
}
