import { type IoredisLike, isIoredis } from "../../clients/redis/ioredis.js";
import { isNodeRedis, type NodeRedisLike } from "../../clients/redis/node-redis.js";
import {
  COMMON_OPTIONS,
  type CommonOptions,
  invalidUrl,
  parametersWith,
  type RedisAddress,
  type RedisSettings,
  readCommonOptions,
  readServer,
  WHICH_CLIENTS,
} from "../../clients/redis/options.js";
import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption } from "../../core/errors.js";
import { knownEngineOptions } from "../../core/options.js";
import type { TlsOptions } from "../../engine-kit/tls.js";
import { parseAddress, type UrlForm, whole, withParameters } from "../../engine-kit/url.js";

/** Which server, by `url` or by `client`, and how it is used. */
export interface RedisOptions extends CommonOptions {
  /** `redis://`, `rediss://`, `redis+sentinel://h1,h2/master`, `redis+cluster://h1,h2` or `redis+unix:///path`. */
  readonly url?: string | undefined;
  /** A client of yours instead; it stays yours to close. */
  readonly client?: IoredisLike | NodeRedisLike | undefined;
  /** A grant waits until this many replicas have it. */
  readonly replicas?: number | undefined;
  /** How long one request may take; `"2s"` if not given. */
  readonly timeout?: Duration | undefined;
}

const OWN_OPTIONS = ["url", "client", "replicas", "timeout"] satisfies (keyof RedisOptions)[];
export const KNOWN: ReadonlySet<string> = new Set<string>([...COMMON_OPTIONS, ...OWN_OPTIONS]);

export const PARAMETERS = parametersWith({ replicas: whole("replicas") });

interface Scheme {
  readonly kind: RedisAddress["kind"];
  readonly isSecure: boolean;
  readonly port: number;
}

const SCHEMES: ReadonlyMap<string, Scheme> = new Map<string, Scheme>([
  ["redis", { kind: "single", isSecure: false, port: 6379 }],
  ["rediss", { kind: "single", isSecure: true, port: 6379 }],
  ["valkey", { kind: "single", isSecure: false, port: 6379 }],
  ["valkeys", { kind: "single", isSecure: true, port: 6379 }],
  ["redis+unix", { kind: "single", isSecure: false, port: 6379 }],
  ["redis+sentinel", { kind: "sentinel", isSecure: false, port: 26379 }],
  ["rediss+sentinel", { kind: "sentinel", isSecure: true, port: 26379 }],
  ["redis+cluster", { kind: "cluster", isSecure: false, port: 6379 }],
  ["rediss+cluster", { kind: "cluster", isSecure: true, port: 6379 }],
]);

const FORM: UrlForm = {
  engine: "Redis",
  ports: new Map([...SCHEMES].map(([name, { port }]) => [name, port])),
  expected:
    "redis://host:port/db, redis+sentinel://h1,h2/master, redis+cluster://h1,h2 or redis+unix:///path/of/the.sock",
  parameters: PARAMETERS,
  socketSchemes: new Set(["redis+unix"]),
};

export function readRedisOptions(given: RedisOptions): RedisSettings {
  knownEngineOptions(given, KNOWN, "redis");
  const { url, client, tls } = given;
  if ((url === undefined) === (client === undefined))
    throw invalidOption("redis: give either a url or a client.");
  if (client !== undefined && !isIoredis(client) && !isNodeRedis(client)) {
    throw invalidOption(`client: ${WHICH_CLIENTS}`);
  }
  if (client !== undefined && tls !== undefined) throw invalidOption("tls: the client has it already.");
  const { address, parameters } = url === undefined ? FROM_CLIENT : parseUrl(url, tls);
  const options = withParameters(given, parameters, KNOWN);
  const { replicas = 0, timeout = "2s" } = options;
  if (!Number.isInteger(replicas) || replicas < 0 || replicas > 100) {
    throw invalidOption("replicas: must be a whole number from 0 to 100.");
  }
  const timeoutMs = durationMs("timeout", timeout, { minMs: 10, maxMs: 60_000 });
  return { ...readCommonOptions(options), address, client, replicas, timeoutMs };
}

const FROM_CLIENT = { address: undefined, parameters: {} };

/** Also what its parameters say of the options. */
function parseUrl(
  url: string,
  tls: TlsOptions | undefined,
): { readonly address: RedisAddress; readonly parameters: object } {
  const { scheme, path, parameters, ...address } = parseAddress(FORM, url);
  const { kind, isSecure } = SCHEMES.get(scheme) as Scheme;
  const fail = (why: string) => invalidUrl(why, "Redis");
  if (kind === "single" && address.hosts.length > 1) {
    throw fail("several hosts need redis+sentinel:// or redis+cluster://");
  }
  const isSocket = address.hosts.some(({ host }) => host.startsWith("/"));
  if (isSocket && (isSecure || kind !== "single")) {
    throw fail("a Unix socket leads to one server, and has no TLS");
  }
  const [first = "", second = ""] = path.split("/");
  const master = kind === "sentinel" ? decodeURIComponent(first) : undefined;
  if (master === "")
    throw fail("redis+sentinel:// needs the master's name, as in redis+sentinel://h1,h2/mymaster");
  const secure = scheme.replace(/^(redis|valkey)(?!s)/, "$1s");
  const database = kind === "sentinel" ? second : first;
  const server = readServer("Redis", database, parameters, tls, { isSecure, secure });
  if (kind === "cluster" && server.db !== 0) throw fail("a cluster has only database 0");
  return {
    address: { ...address, ...server, kind, ...(master === undefined ? undefined : { master }) },
    parameters,
  };
}
