import { tlsMode } from "../../engine-kit/tls.js";
import { accepted, type Parameter, type ParameterTable, text, words } from "../../engine-kit/url.js";
import { DATABASE_PARAMETERS, type DatabaseSets, OTHER_TOOLS, SSL } from "../sql/parameters.js";

type Sets = DatabaseSets | "schema";

const socket = text("host");
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
    "ssl-mode": tlsMode(),
    ssl_mode: tlsMode(),
    sslMode: tlsMode(),
    "ssl-ca": text("sslrootcert"),
    ssl_ca: text("sslrootcert"),
    "ssl-cert": text("sslcert"),
    ssl_cert: text("sslcert"),
    "ssl-key": text("sslkey"),
    ssl_key: text("sslkey"),
    socket,
    socketPath: socket,
    unix_socket: socket,
    schema: words("schema", { create: "create", verify: "verify" }),
    charset,
    characterEncoding: charset,
    encoding: charset,
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
