import { type IoredisLike, isIoredis } from "../../clients/redis/ioredis.js";
import { isNodeRedis, type NodeRedisLike } from "../../clients/redis/node-redis.js";
import {
  type RedisLibrary,
  type RedisSettings,
  readCommonOptions,
  WHICH_CLIENTS,
} from "../../clients/redis/options.js";
import { QUORUM_PARAMETERS, type RedisParameters } from "../../clients/redis/parameters.js";
import { readDatabase } from "../../clients/redis/url.js";
import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption, partOf } from "../../core/errors.js";
import { knownEngineOptions, ttlOption } from "../../core/options.js";
import { readTls, type TlsOptions, type TlsParameters } from "../../engine-kit/tls.js";
import { describeHosts, parseAddress, type UrlForm, withParameters } from "../../engine-kit/url.js";
import { refuseLongerThan } from "./traits.js";

export interface RedlockOptions {
  /** `redlock://h1,h2,h3`, or `redlocks://` with TLS: independent Redis servers, none a replica of another. */
  readonly url?: string | undefined;
  /** Clients of yours instead, one for each server; they stay yours to close. */
  readonly clients?: readonly (IoredisLike | NodeRedisLike)[] | undefined;
  /** With a URL: which library opens it. If not given, the first that is installed: ioredis, redis, iovalkey. */
  readonly library?: RedisLibrary | undefined;
  /** PEM texts for `redlocks://`: the authority that signed the servers' certificates, and our own certificate. */
  readonly tls?: TlsOptions | undefined;
  /** What the keys begin with; `"locktender"` if not given. */
  readonly prefix?: string | undefined;
  /**
   * The longest ttl, and the time for which a server that has lost its memory does not vote; `"1m"` if not
   * given. All processes that use the same servers and prefix must say the same.
   */
  readonly maxTtl?: Duration | undefined;
  /** The ttl that locks have by default; `connect` gives it, and one that is longer than `maxTtl` is refused then. */
  readonly ttl?: Duration | undefined;
  /** These servers have never been used with this prefix: let them vote at once. Only if that is so of all. */
  readonly fresh?: boolean | undefined;
  /** How long the counter of an idle name is kept; `"10m"` if not given. */
  readonly retention?: Duration | undefined;
  /** How long to wait for one server at most, and never for more than a third of the ttl; `"1s"` if not given. */
  readonly timeout?: Duration | undefined;
  /** `"accept"` servers that may evict locks when their memory is full. */
  readonly eviction?: "refuse" | "accept" | undefined;
}

export interface RedlockSettings {
  readonly nodes: readonly { readonly where: string; readonly settings: RedisSettings }[];
  readonly prefix: string;
  readonly maxTtlMs: number;
  readonly fresh: boolean;
  readonly retentionMs: number;
  readonly timeoutMs: number;
}

export const KNOWN: ReadonlySet<string> = new Set<string>([
  "url",
  "clients",
  "library",
  "tls",
  "prefix",
  "maxTtl",
  "ttl",
  "fresh",
  "retention",
  "timeout",
  "eviction",
] satisfies (keyof RedlockOptions)[]);

const FORM: UrlForm = {
  engine: "Redlock",
  ports: new Map([
    ["redlock", 6379],
    ["redlocks", 6379],
  ]),
  expected: "redlock://h1,h2,h3/db or redlocks://h1,h2,h3/db",
  parameters: QUORUM_PARAMETERS,
};
const FEWEST_NODES = 3;
const MOST_NODES = 15;
/** An answer that comes later than its vote was waited for is still seen, and given back. */
const LATE_ANSWERS = 2;

export function readRedlockOptions(given: RedlockOptions): RedlockSettings {
  knownEngineOptions(given, KNOWN, "redlock");
  const { url, clients, tls } = given;
  if ((url === undefined) === (clients === undefined))
    throw invalidOption("redlock: give either a url or clients.");
  if (clients !== undefined && tls !== undefined) throw invalidOption("tls: the clients have it already.");
  const { targets, parameters } = url === undefined ? fromClients(clients) : fromUrl(url, tls);
  const options = withParameters(given, parameters, KNOWN);
  const { fresh = false } = options;
  if (typeof fresh !== "boolean") throw invalidOption("fresh: must be true or false.");
  const timeoutMs = durationMs("timeout", options.timeout ?? "1s", { minMs: 10, maxMs: 30_000 });
  const maxTtlMs = Math.ceil(durationMs("maxTtl", options.maxTtl ?? "1m", { minMs: 100, maxMs: 86_400_000 }));
  if (options.ttl !== undefined) refuseLongerThan(maxTtlMs, "ttl", ttlOption(options.ttl));
  const common = readCommonOptions(options);
  const { prefix, retentionMs } = common;
  const perNode = { ...common, replicas: 0, timeoutMs: LATE_ANSWERS * timeoutMs };
  return {
    nodes: targets.map(({ where, ...target }) => ({ where, settings: { ...perNode, ...target } })),
    prefix,
    maxTtlMs,
    fresh,
    retentionMs,
    timeoutMs,
  };
}

interface Targets {
  readonly targets: readonly ({ readonly where: string } & Pick<RedisSettings, "address" | "client">)[];
  /** What the URL says of the options. */
  readonly parameters: object;
}

function fromUrl(url: string, tlsOptions: TlsOptions | undefined): Targets {
  const { scheme, hosts, path, parameters, ...credentials } = parseAddress(FORM, url);
  const db = readDatabase(path, parameters as RedisParameters, "Redlock");
  const places = hosts.map((host) => describeHosts({ hosts: [host] }));
  if (new Set(places.map((place) => place.toLowerCase())).size < places.length) {
    throw invalidOption(
      "this Redlock URL cannot be used: it names a server twice, and one server has one vote.",
    );
  }
  assertEnough(hosts.length);
  const { family } = parameters as RedisParameters;
  const isSecure = scheme === "redlocks";
  const common = {
    ...credentials,
    kind: "single" as const,
    tls: readTls(tlsOptions, parameters as TlsParameters, { isSecure, secure: "redlocks" }),
    db,
    ...(family === undefined ? undefined : { family }),
  };
  const targets = hosts.map((host, index) => ({
    where: places[index] ?? "",
    client: undefined,
    address: { ...common, hosts: [host] },
  }));
  return { targets, parameters };
}

function fromClients(clients: unknown): Targets {
  if (!Array.isArray(clients))
    throw invalidOption("clients: must be a list, with one client for each server.");
  for (const client of clients) {
    if (!isIoredis(client) && !isNodeRedis(client)) throw invalidOption(`clients: each ${WHICH_CLIENTS}`);
    if (isSeveralServers(client))
      throw invalidOption("clients: a quorum needs independent servers, not a Cluster or Sentinel.");
  }
  if (new Set(clients).size < clients.length)
    throw invalidOption("clients: one of them is given twice, and one server has one vote.");
  assertEnough(clients.length);
  const targets = clients.map((client, index) => ({
    where: `client ${index + 1}`,
    client,
    address: undefined,
  }));
  return { targets, parameters: {} };
}

function isSeveralServers(client: object): boolean {
  const marks = ["masters", "getMasterNode"].map((name) => partOf(client, name));
  if (partOf(client, "isCluster") === true || marks.some((mark) => mark !== undefined)) return true;
  return Array.isArray(partOf(partOf(client, "options"), "sentinels"));
}

function assertEnough(count: number): void {
  if (count >= FEWEST_NODES && count <= MOST_NODES) return;
  throw invalidOption(
    `redlock: a quorum needs ${FEWEST_NODES} to ${MOST_NODES} servers, of which a minority may fail. With one server, use redis://.`,
  );
}
