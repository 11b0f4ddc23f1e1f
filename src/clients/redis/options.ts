import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption } from "../../core/errors.js";
import type { IoredisLike } from "./ioredis.js";
import type { NodeRedisLike } from "./node-redis.js";
import type { RedisAddress } from "./url.js";

/** In the order in which they are chosen. */
export const LIBRARIES = ["ioredis", "redis", "iovalkey"] as const;
export type RedisLibrary = (typeof LIBRARIES)[number];

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

/** The options that Redis and Redlock share. */
export interface CommonOptions {
  readonly library?: RedisLibrary | undefined;
  readonly prefix?: string | undefined;
  readonly retention?: Duration | undefined;
  readonly eviction?: "refuse" | "accept" | undefined;
}

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
