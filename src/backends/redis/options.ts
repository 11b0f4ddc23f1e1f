import { type IoredisLike, isIoredis } from "../../clients/redis/ioredis.js";
import { isNodeRedis, type NodeRedisLike } from "../../clients/redis/node-redis.js";
import {
  type RedisLibrary,
  type RedisSettings,
  readCommonOptions,
  WHICH_CLIENTS,
} from "../../clients/redis/options.js";
import { parseRedisUrl } from "../../clients/redis/url.js";
import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption } from "../../core/errors.js";
import { knownEngineOptions } from "../../core/options.js";
import type { TlsOptions } from "../../engine-kit/tls.js";
import { withParameters } from "../../engine-kit/url.js";

export interface RedisOptions {
  /** `redis://`, `rediss://`, `redis+sentinel://h1,h2/master`, `redis+cluster://h1,h2` or `redis+unix:///path`. */
  readonly url?: string | undefined;
  /** A client of yours instead; it stays yours to close. */
  readonly client?: IoredisLike | NodeRedisLike | undefined;
  /** With a URL: which library opens it. If not given, the first that is installed: ioredis, redis, iovalkey. */
  readonly library?: RedisLibrary | undefined;
  /** PEM texts for `rediss://`: the authority that signed the servers' certificates, and our own certificate. */
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

export const KNOWN: ReadonlySet<string> = new Set<string>([
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

export function readRedisOptions(given: RedisOptions): RedisSettings {
  knownEngineOptions(given, KNOWN, "redis");
  const { url, client, tls } = given;
  if ((url === undefined) === (client === undefined))
    throw invalidOption("redis: give either a url or a client.");
  if (client !== undefined && !isIoredis(client) && !isNodeRedis(client)) {
    throw invalidOption(`client: ${WHICH_CLIENTS}`);
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
