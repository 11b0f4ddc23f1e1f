import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption } from "../../core/errors.js";
import { knownOptions } from "../../core/options.js";
import { type IoredisLike, isIoredis } from "./ioredis.js";
import { isNodeRedis, type NodeRedisLike } from "./node-redis.js";
import { parseRedisUrl, type RedisAddress } from "./url.js";

/** In the order in which they are chosen. */
export const LIBRARIES = ["ioredis", "redis", "iovalkey"] as const;
export type RedisLibrary = (typeof LIBRARIES)[number];

export interface RedisOptions {
  /** `redis://`, `rediss://`, `redis+sentinel://h1,h2/master` or `redis+cluster://h1,h2`. */
  readonly url?: string;
  /** A client of yours instead; it stays yours to close. */
  readonly client?: IoredisLike | NodeRedisLike;
  /** With a URL: which library opens it. If not given, the first that is installed: ioredis, redis, iovalkey. */
  readonly library?: RedisLibrary;
  /** What the keys begin with; `"locktender"` if not given. */
  readonly prefix?: string;
  /** A grant waits until this many replicas have it. */
  readonly replicas?: number;
  /** How long the counter of an idle name, or the version of a deleted cell, is kept; `"10m"` if not given. */
  readonly retention?: Duration;
  /** How long one request may take; `"2s"` if not given. */
  readonly timeout?: Duration;
  /** `"accept"` a server that may evict locks when its memory is full. */
  readonly eviction?: "refuse" | "accept";
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
  "prefix",
  "replicas",
  "retention",
  "timeout",
  "eviction",
] satisfies (keyof RedisOptions)[]);

export function checkLibrary(library: RedisLibrary | undefined): void {
  if (library === undefined || LIBRARIES.includes(library)) return;
  throw invalidOption(`library: must be one of ${LIBRARIES.join(", ")}.`);
}

/** Of a client that somebody brings. */
export const WHOSE =
  "must be a client of ioredis, of redis (node-redis) or of iovalkey, for one server, a Cluster or Sentinel. A pool, a pipeline, or a client of another library cannot be used.";

export function readRedisOptions(options: RedisOptions): RedisSettings {
  knownOptions(options, KNOWN, "redis");
  const { url, client, library, prefix = "locktender", replicas = 0, eviction = "refuse" } = options;
  if ((url === undefined) === (client === undefined))
    throw invalidOption("redis: give either a url or a client.");
  if (client !== undefined && !isIoredis(client) && !isNodeRedis(client)) {
    throw invalidOption(`client: ${WHOSE}`);
  }
  checkLibrary(library);
  if (typeof prefix !== "string" || prefix === "" || prefix.length > 100 || /[{}\s\p{Cc}]/u.test(prefix)) {
    throw invalidOption("prefix: must be 1 to 100 characters without braces or white space.");
  }
  if (!Number.isInteger(replicas) || replicas < 0 || replicas > 100) {
    throw invalidOption("replicas: must be a whole number from 0 to 100.");
  }
  if (eviction !== "refuse" && eviction !== "accept")
    throw invalidOption('eviction: must be "refuse" or "accept".');
  return {
    address: url === undefined ? undefined : parseRedisUrl(url),
    client,
    library,
    prefix,
    replicas,
    retentionMs: Math.ceil(durationMs("retention", options.retention ?? "10m", { minMs: 1 })),
    timeoutMs: durationMs("timeout", options.timeout ?? "2s", { minMs: 10, maxMs: 60_000 }),
    acceptEviction: eviction === "accept",
  };
}
