import { describeHosts, parseAddress } from "../../core/address.js";
import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption } from "../../core/errors.js";
import { knownOptions } from "../../core/options.js";
import { partOf } from "../../core/shape.js";
import { type IoredisLike, isIoredis } from "../redis/ioredis.js";
import { isNodeRedis, type NodeRedisLike } from "../redis/node-redis.js";
import { checkLibrary, type RedisLibrary, type RedisSettings, WHOSE } from "../redis/options.js";

export interface RedlockOptions {
  /** `redlock://h1,h2,h3`, or `redlocks://` with TLS: independent Redis servers, none a replica of another. */
  readonly url?: string;
  /** Clients of yours instead, one for each server; they stay yours to close. */
  readonly clients?: readonly (IoredisLike | NodeRedisLike)[];
  /** With a URL: which library opens it. If not given, the first that is installed: ioredis, redis, iovalkey. */
  readonly library?: RedisLibrary;
  /** What the keys begin with; `"locktender"` if not given. */
  readonly prefix?: string;
  /**
   * The longest ttl, and the time for which a server that has lost its memory does not vote; `"1m"` if not
   * given. Everybody who uses the same servers and prefix must say the same.
   */
  readonly maxTtl?: Duration;
  /** These servers have never been used with this prefix: let them vote at once. Only if that is so of all. */
  readonly fresh?: boolean;
  /** How long the counter of an idle name is kept; `"10m"` if not given. */
  readonly retention?: Duration;
  /** How long to wait for one server at most, and never for more than a third of the ttl; `"1s"` if not given. */
  readonly timeout?: Duration;
  /** `"accept"` servers that may evict locks when their memory is full. */
  readonly eviction?: "refuse" | "accept";
}

export interface QuorumSettings {
  readonly nodes: readonly { readonly where: string; readonly settings: RedisSettings }[];
  readonly prefix: string;
  readonly maxTtlMs: number;
  readonly fresh: boolean;
  readonly retentionMs: number;
  readonly timeoutMs: number;
}

const KNOWN = new Set<string>([
  "url",
  "clients",
  "library",
  "prefix",
  "maxTtl",
  "fresh",
  "retention",
  "timeout",
  "eviction",
] satisfies (keyof RedlockOptions)[]);

const PORTS = new Map([
  ["redlock", 6379],
  ["redlocks", 6379],
]);
const FEWEST_NODES = 3;
const MOST_NODES = 15;
/** An answer that comes later than its vote was waited for is still seen, and given back. */
const LATE_ANSWERS = 2;

export function readRedlockOptions(options: RedlockOptions): QuorumSettings {
  knownOptions(options, KNOWN, "redlock");
  const { url, clients, library, prefix = "locktender", fresh = false, eviction = "refuse" } = options;
  if ((url === undefined) === (clients === undefined))
    throw invalidOption("redlock: give either a url or clients.");
  checkLibrary(library);
  if (typeof prefix !== "string" || prefix === "" || prefix.length > 100 || /[{}\s\p{Cc}]/u.test(prefix)) {
    throw invalidOption("prefix: must be 1 to 100 characters without braces or white space.");
  }
  if (typeof fresh !== "boolean") throw invalidOption("fresh: must be true or false.");
  if (eviction !== "refuse" && eviction !== "accept")
    throw invalidOption('eviction: must be "refuse" or "accept".');
  const timeoutMs = durationMs("timeout", options.timeout ?? "1s", { minMs: 10, maxMs: 30_000 });
  const retentionMs = Math.ceil(durationMs("retention", options.retention ?? "10m", { minMs: 1 }));
  const common = {
    library,
    prefix,
    replicas: 0,
    retentionMs,
    timeoutMs: LATE_ANSWERS * timeoutMs,
    acceptEviction: eviction === "accept",
  };
  const targets = url === undefined ? fromClients(clients) : fromUrl(url);
  return {
    nodes: targets.map(({ where, ...target }) => ({ where, settings: { ...common, ...target } })),
    prefix,
    maxTtlMs: Math.ceil(durationMs("maxTtl", options.maxTtl ?? "1m", { minMs: 100, maxMs: 86_400_000 })),
    fresh,
    retentionMs,
    timeoutMs,
  };
}

type Target = { readonly where: string } & Pick<RedisSettings, "address" | "client">;

function fromUrl(url: string): readonly Target[] {
  const { scheme, hosts, path, ...credentials } = parseAddress(
    "Redlock",
    url,
    PORTS,
    "redlock://h1,h2,h3/db or redlocks://h1,h2,h3/db",
  );
  const db = Number(path || "0");
  if (!Number.isInteger(db) || db < 0)
    throw invalidOption("this Redlock URL cannot be used: the database must be a number.");
  const places = hosts.map((host) => describeHosts({ hosts: [host] }));
  if (new Set(places.map((place) => place.toLowerCase())).size < places.length) {
    throw invalidOption(
      "this Redlock URL cannot be used: it names a server twice, and one server has one vote.",
    );
  }
  assertEnough(hosts.length);
  const tls = scheme === "redlocks";
  return hosts.map((host, index) => ({
    where: places[index] ?? "",
    client: undefined,
    address: { kind: "single", hosts: [host], tls, db, ...credentials },
  }));
}

function fromClients(clients: unknown): readonly Target[] {
  if (!Array.isArray(clients))
    throw invalidOption("clients: must be a list, with one client for each server.");
  for (const client of clients) {
    if (!isIoredis(client) && !isNodeRedis(client)) throw invalidOption(`clients: each ${WHOSE}`);
    if (isSeveralServers(client))
      throw invalidOption("clients: a quorum needs independent servers, not a Cluster or Sentinel.");
  }
  if (new Set(clients).size < clients.length)
    throw invalidOption("clients: one of them is given twice, and one server has one vote.");
  assertEnough(clients.length);
  return clients.map((client, index) => ({ where: `client ${index + 1}`, client, address: undefined }));
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
