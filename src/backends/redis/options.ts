import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption } from "../../core/errors.js";
import { knownOptions } from "../../core/options.js";
import { withParameters } from "../../core/parameters.js";
import type { TlsOptions } from "../../core/tls.js";
import { type IoredisLike, isIoredis } from "./ioredis.js";
import { isNodeRedis, type NodeRedisLike } from "./node-redis.js";
import { parseRedisUrl, type RedisAddress } from "./url.js";

/** In the order in which they are chosen. */
export const LIBRARIES = ["ioredis", "redis", "iovalkey"] as const;
export type RedisLibrary = (typeof LIBRARIES)[number];

export interface RedisOptions {
  /** `redis://`, `rediss://`, `redis+sentinel://h1,h2/master`, `redis+cluster://h1,h2` or `redis+unix:///path`. */
  readonly url?: string | undefined;
  /** A client of yours instead; it stays yours to close. */
  readonly client?: IoredisLike | NodeRedisLike | undefined;
  /** With a URL: which library opens it. If not given, the first that is installed: ioredis, redis, iovalkey. */
  readonly library?: RedisLibrary | undefined;
  /** PEM texts for `rediss://`: who signed the servers, and who we are. */
  readonly tls?: TlsOptions | undefined;
  /** What the keys begin with; `"locktender"` if not given. */
  readonly prefix?: string | undefined;
  /** A grant waits until this many replicas have it. */
  readonly replicas?: number | undefined;
  /** How long the counter of an idle name, or the version of a deleted cell, is kept; `"10m"` if not given. */
  readonly retention?: Duration | undefined;
  /** How long one request may take; `"2s"` if not given. */
  readonly timeout?: Duration | undefined;
  /** `"accept"` a server that may evict locks when its memory is full. */
  readonly eviction?: "refuse" | "accept" | undefined;
}

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

const KNOWN = new Set<string>([
  "url",
  "client",
  "library",
  "tls",
  "prefix",
  "replicas",
  "retention",
  "timeout",
  "eviction",
] satisfies (keyof RedisOptions)[]);

/** Of a client that somebody brings. */
export const WHOSE =
  "must be a client of ioredis, of redis (node-redis) or of iovalkey, for one server, a Cluster or Sentinel. A pool, a pipeline, or a client of another library cannot be used.";

export function readRedisOptions(given: RedisOptions): RedisSettings {
  knownOptions(given, KNOWN, "redis");
  const { url, client, tls } = given;
  if ((url === undefined) === (client === undefined))
    throw invalidOption("redis: give either a url or a client.");
  if (client !== undefined && !isIoredis(client) && !isNodeRedis(client)) {
    throw invalidOption(`client: ${WHOSE}`);
  }
  if (client !== undefined && tls !== undefined) throw invalidOption("tls: the client has it already.");
  const { address, parameters } = url === undefined ? FROM_CLIENT : parseRedisUrl(url, tls);
  const options = withParameters(given, parameters, KNOWN);
  const { replicas = 0 } = options;
  if (!Number.isInteger(replicas) || replicas < 0 || replicas > 100) {
    throw invalidOption("replicas: must be a whole number from 0 to 100.");
  }
  return {
    ...readCommonOptions(options),
    address,
    client,
    replicas,
    timeoutMs: readTimeout(options.timeout),
  };
}

const FROM_CLIENT = { address: undefined, parameters: {} };

function readTimeout(timeout: Duration = "2s"): number {
  return durationMs("timeout", timeout, { minMs: 10, maxMs: 60_000 });
}

/** Those that a quorum has, too. */
export function readCommonOptions(
  options: Pick<RedisOptions, "library" | "prefix" | "retention" | "eviction">,
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
