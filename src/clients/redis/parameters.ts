import { TLS_PARAMETERS, type TlsSets } from "../../engine-kit/tls.js";
import { duration, type Parameter, type ParameterTable, text, whole, words } from "../../engine-kit/url.js";

/** What the URL can set beyond the options. */
export interface RedisParameters {
  readonly db?: number;
  /** Which addresses of a name are used: of version 4, of version 6, or both (0). */
  readonly family?: 0 | 4 | 6;
}

type CommonSets =
  | TlsSets
  | keyof RedisParameters
  | "username"
  | "password"
  | "library"
  | "prefix"
  | "retention"
  | "timeout"
  | "eviction";

/** Of every URL that leads to such servers. */
const COMMON: Readonly<Record<string, Parameter<CommonSets>>> = {
  ...TLS_PARAMETERS,
  // As redis-py, and with it Celery and others, write it.
  ssl_cert_reqs: words("verify", {
    none: "nothing",
    cert_none: "nothing",
    required: "full",
    cert_required: "full",
  }),
  ssl_ca_certs: text("sslrootcert"),
  db: whole("db"),
  family: words("family", { 0: 0, 4: 4, 6: 6 }),
  username: text("username"),
  password: text("password"),
  library: text("library"),
  prefix: text("prefix"),
  retention: duration("retention"),
  timeout: duration("timeout"),
  eviction: text("eviction"),
};

/** Of pools, retries and types of values, which other libraries have. */
const OTHER_TOOLS = [
  "connectTimeout",
  "decode_responses",
  "dial_timeout",
  "enableOfflineQueue",
  "enableReadyCheck",
  "health_check_interval",
  "lazyConnect",
  "maxRetriesPerRequest",
  "max_connections",
  "max_retries",
  "min_idle_conns",
  "pool_size",
  "pool_timeout",
  "protocol",
  "read_timeout",
  "read_write_timeout",
  "retry_on_timeout",
  "socket_connect_timeout",
  "socket_keepalive",
  "socket_timeout",
  "write_timeout",
];

export const PARAMETERS: ParameterTable<CommonSets | "replicas"> = {
  honoured: { ...COMMON, replicas: whole("replicas") },
  withoutEffect: OTHER_TOOLS,
};

/** Of a quorum of independent servers. */
export const QUORUM_PARAMETERS: ParameterTable<CommonSets | "maxTtl" | "fresh"> = {
  honoured: {
    ...COMMON,
    maxTtl: duration("maxTtl"),
    fresh: words("fresh", { true: true, false: false }),
  },
  withoutEffect: OTHER_TOOLS,
};
