import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption, type LockError } from "../../core/errors.js";
import {
  readTls,
  TLS_PARAMETERS,
  type TlsOptions,
  type TlsParameters,
  type TlsSets,
  type TlsSettings,
} from "../../engine-kit/tls.js";
import {
  duration,
  type Host,
  type Parameter,
  type ParameterTable,
  text,
  whole,
  words,
} from "../../engine-kit/url.js";
import type { IoredisLike } from "./ioredis.js";
import type { NodeRedisLike } from "./node-redis.js";

/** In the order in which they are chosen. */
export const LIBRARIES = ["ioredis", "redis", "iovalkey"] as const;
export type RedisLibrary = (typeof LIBRARIES)[number];

/** The options that Redis and Redlock share. */
export interface CommonOptions {
  /** With a URL: which library opens it. If not given, the first that is installed: ioredis, redis, iovalkey. */
  readonly library?: RedisLibrary | undefined;
  /** PEM texts for a URL with TLS: the authority that signed the servers' certificates, and our own certificate. */
  readonly tls?: TlsOptions | undefined;
  /** What the keys begin with; `"locktender"` if not given. */
  readonly prefix?: string | undefined;
  /** How long the counter of an idle name, or the version of a deleted cell, is kept; `"10m"` if not given. */
  readonly retention?: Duration | undefined;
  /** `"accept"` a server that may evict locks when its memory is full. */
  readonly eviction?: "refuse" | "accept" | undefined;
}

export const COMMON_OPTIONS = [
  "library",
  "tls",
  "prefix",
  "retention",
  "eviction",
] satisfies (keyof CommonOptions)[];

/** What an engine needs to know of its options to reach one server, or the servers of one cluster. */
export interface RedisSettings {
  readonly address: RedisAddress | undefined;
  readonly client: IoredisLike | NodeRedisLike | undefined;
  readonly library: RedisLibrary | undefined;
  readonly prefix: string;
  readonly replicas: number;
  readonly retentionMs: number;
  readonly timeoutMs: number;
  readonly acceptEviction: boolean;
}

/** Of a client that the caller brings. */
export const WHICH_CLIENTS =
  "must be a client of ioredis, of redis (node-redis) or of iovalkey, for one server, a Cluster or Sentinel. A pool, a pipeline, or a client of another library cannot be used.";

export function readCommonOptions(
  options: CommonOptions,
): Pick<RedisSettings, "library" | "prefix" | "retentionMs" | "acceptEviction"> {
  const { library, prefix = "locktender", eviction = "refuse", retention = "10m" } = options;
  if (library !== undefined && !LIBRARIES.includes(library)) {
    throw invalidOption(`library: must be one of ${LIBRARIES.join(", ")}.`);
  }
  if (typeof prefix !== "string" || prefix === "" || prefix.length > 100 || /[{}\s\p{Cc}]/u.test(prefix)) {
    throw invalidOption("prefix: must be 1 to 100 characters without braces or white space.");
  }
  if (eviction !== "refuse" && eviction !== "accept")
    throw invalidOption('eviction: must be "refuse" or "accept".');
  return {
    library,
    prefix,
    retentionMs: Math.ceil(durationMs("retention", retention, { minMs: 1 })),
    acceptEviction: eviction === "accept",
  };
}

/** What the URL can set beyond the options. */
interface RedisParameters {
  readonly db?: number;
  /** Which addresses of a name are used: of version 4, of version 6, or both (0). */
  readonly family?: 0 | 4 | 6;
}

type CommonSets =
  | TlsSets
  | "db"
  | "family"
  | Exclude<keyof CommonOptions, "tls">
  | "username"
  | "password"
  | "timeout";

/** Of every URL that leads to such servers. */
const COMMON_PARAMETERS: Readonly<Record<string, Parameter<CommonSets>>> = {
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

/** The parameters of an engine's URL: those of every such URL, and its own. */
export function parametersWith<Sets extends string>(
  own: Readonly<Record<string, Parameter<Sets>>>,
): ParameterTable<CommonSets | Sets> {
  return { honoured: { ...COMMON_PARAMETERS, ...own }, withoutEffect: OTHER_TOOLS };
}

export interface RedisAddress {
  readonly kind: "single" | "sentinel" | "cluster";
  readonly hosts: readonly Host[];
  readonly tls: TlsSettings | undefined;
  readonly username?: string;
  readonly password?: string;
  readonly db: number;
  readonly family?: RedisParameters["family"];
  /** The name under which the sentinels know the master. */
  readonly master?: string;
}

/** What of an address does not depend on its kind. The path is the part of the URL that names the database. */
export function readServer(
  engine: string,
  path: string,
  parameters: object,
  tls: TlsOptions | undefined,
  scheme: { readonly isSecure: boolean; readonly secure: string },
): Pick<RedisAddress, "db" | "tls" | "family"> {
  const { db, family } = parameters as RedisParameters;
  const number = Number(path || (db ?? 0));
  if (!Number.isInteger(number) || number < 0) throw invalidUrl("the database must be a number", engine);
  if (db !== undefined && db !== number) throw invalidUrl("its path and db name two databases", engine);
  return {
    db: number,
    tls: readTls(tls, parameters as TlsParameters, scheme),
    ...(family === undefined ? undefined : { family }),
  };
}

export function invalidUrl(why: string, engine: string): LockError {
  return invalidOption(`this ${engine} URL cannot be used: ${why}.`);
}
