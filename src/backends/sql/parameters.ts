import { TLS_PARAMETERS, type TlsSets, tlsMode } from "../../engine-kit/tls.js";
import { duration, type Parameter, seconds, text, whole, words } from "../../engine-kit/url.js";

/** What the URL of a database can set, besides where the server is. */
export type DatabaseSets =
  | TlsSets
  | "target"
  | "host"
  | "database"
  | "prefix"
  | "connections"
  | "retention"
  | "timeout"
  | "connectTimeout";

/** Longer is taken for "no limit". */
export const LONGEST_CONNECT_MS = 600_000;

/** Of the URLs of all databases. */
export const DATABASE_PARAMETERS: Readonly<Record<string, Parameter<DatabaseSets>>> = {
  ...TLS_PARAMETERS,
  // As Prisma writes it.
  sslaccept: words("verify", { strict: "full", accept_invalid_certs: "nothing" }),
  // Locks can only use the server that writes, so that one is looked for in any case.
  target_session_attrs: words(
    "target",
    { "read-write": "primary", primary: "primary" },
    "must be read-write or primary: locks are written",
  ),
  connect_timeout: seconds("connectTimeout", LONGEST_CONNECT_MS),
  connectTimeout: duration("connectTimeout"),
  prefix: text("prefix"),
  connections: whole("connections"),
  retention: duration("retention"),
  timeout: duration("timeout"),
};

/** `ssl=true`, as the libraries of Node.js write it, or a word for the mode. */
export const SSL = tlsMode({ true: "full", 1: "full", false: "off", 0: "off" });

/** Of pools and caches, which other tools keep and we do not. */
export const OTHER_TOOLS = [
  "connection_limit",
  "max_connection_lifetime",
  "max_idle_connection_lifetime",
  "pool",
  "pool_size",
  "pool_timeout",
  "max_overflow",
  "prepared_statements",
  "reconnect",
  "serverVersion",
  "socket_timeout",
  "statement_cache_size",
] as const;
