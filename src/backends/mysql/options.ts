import { isIP } from "node:net";
import { invalidOption } from "../../core/errors.js";
import { tlsMode } from "../../engine-kit/tls.js";
import { accepted, type Parameter, type ParameterTable, text, words } from "../../engine-kit/url.js";
import {
  DATABASE_PARAMETERS,
  type DatabaseSets,
  named,
  OTHER_TOOLS,
  readServerOptions,
  SERVER_OPTIONS,
  type ServerKind,
  type ServerOptions,
  type ServerSettings,
  SSL,
} from "../sql/options.js";
import { isMysqlPool, type MysqlPoolLike } from "./library.js";

/** Which database, by `url` or by `pool`, and how it is used. */
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

type Sets = DatabaseSets | "schema";

const charset = accepted(
  /^utf-?8(mb[34])?(_\w+)?$/i,
  "must be utf8mb4: in another one different names could become one",
);

/** As `mysql2` takes it: true, or an object as JSON. */
const ssl: Parameter<"verify"> = {
  ...SSL,
  read: (given) => (given.startsWith("{") ? verifyIn(given) : SSL.read(given)),
  must: 'must be true, false or {"rejectUnauthorized":true}',
};

function verifyIn(json: string): unknown {
  try {
    const { rejectUnauthorized = true, ...others } = JSON.parse(json) as Record<string, unknown>;
    if (Object.keys(others).length > 0 || typeof rejectUnauthorized !== "boolean") return undefined;
    return rejectUnauthorized ? "full" : "nothing";
  } catch {
    return undefined;
  }
}

export const PARAMETERS: ParameterTable<Sets> = {
  honoured: {
    ...DATABASE_PARAMETERS,
    ssl,
    ...named(["ssl-mode", "ssl_mode", "sslMode"], tlsMode()),
    ...named(["ssl-ca", "ssl_ca"], text("sslrootcert")),
    ...named(["ssl-cert", "ssl_cert"], text("sslcert")),
    ...named(["ssl-key", "ssl_key"], text("sslkey")),
    ...named(["socket", "socketPath", "unix_socket"], text("host")),
    schema: words("schema", { create: "create", verify: "verify" }),
    ...named(["charset", "characterEncoding", "encoding"], charset),
  },
  withoutEffect: [
    ...OTHER_TOOLS,
    "bigNumberStrings",
    "collation",
    "connectionCollation",
    "connectionLimit",
    "dateStrings",
    "decimalNumbers",
    "enableKeepAlive",
    "idleTimeout",
    "loc",
    "maxIdle",
    "multiStatements",
    "multipleStatements",
    "namedPlaceholders",
    "parseTime",
    "queueLimit",
    "serverTimezone",
    "supportBigNumbers",
    "time_zone",
    "timezone",
    "useUnicode",
    "waitForConnections",
  ],
};

const KIND: ServerKind = {
  engine: "mysql",
  isPool: isMysqlPool,
  poolMustBe:
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
