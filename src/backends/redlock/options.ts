import { type IoredisLike, isIoredis } from "../../clients/redis/ioredis.js";
import { isNodeRedis, type NodeRedisLike } from "../../clients/redis/node-redis.js";
import {
  COMMON_OPTIONS,
  type CommonOptions,
  invalidUrl,
  parametersWith,
  type RedisSettings,
  readCommonOptions,
  readServer,
  WHICH_CLIENTS,
} from "../../clients/redis/options.js";
import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption, partOf } from "../../core/errors.js";
import { knownEngineOptions, ttlOption } from "../../core/options.js";
import type { TlsOptions } from "../../engine-kit/tls.js";
import {
  describeHosts,
  duration,
  parseAddress,
  type UrlForm,
  withParameters,
  words,
} from "../../engine-kit/url.js";
import { refuseLongerThan } from "./errors.js";

/** Which servers, by `url` or by `clients`, and how they are used. */
export interface RedlockOptions extends CommonOptions {
  /** `redlock://h1,h2,h3`, or `redlocks://` with TLS: independent Redis servers, none a replica of another. */
  readonly url?: string | undefined;
  /** Clients of yours instead, one for each server; they stay yours to close. */
  readonly clients?: readonly (IoredisLike | NodeRedisLike)[] | undefined;
  /**
   * The longest ttl, and the time for which a server that has lost its memory does not vote; `"1m"` if not
   * given. All processes that use the same servers and prefix must say the same.
   */
  readonly maxTtl?: Duration | undefined;
  /** The ttl that locks have by default; `connect` gives it, and one that is longer than `maxTtl` is refused then. */
  readonly ttl?: Duration | undefined;
  /** These servers have never been used with this prefix: let them vote at once. Only if that is so of all. */
  readonly fresh?: boolean | undefined;
  /** How long to wait for one server at most, and never for more than a third of the ttl; `"1s"` if not given. */
  readonly timeout?: Duration | undefined;
}

export interface RedlockSettings extends Pick<RedisSettings, "prefix" | "retentionMs" | "timeoutMs"> {
  readonly nodes: readonly { readonly where: string; readonly settings: RedisSettings }[];
  readonly maxTtlMs: number;
  readonly fresh: boolean;
}

const OWN_OPTIONS = [
  "url",
  "clients",
  "maxTtl",
  "ttl",
  "fresh",
  "timeout",
] satisfies (keyof RedlockOptions)[];
export const KNOWN: ReadonlySet<string> = new Set<string>([...COMMON_OPTIONS, ...OWN_OPTIONS]);

export const PARAMETERS = parametersWith({
  maxTtl: duration("maxTtl"),
  fresh: words("fresh", { true: true, false: false }),
});

const FORM: UrlForm = {
  engine: "Redlock",
  ports: new Map([
    ["redlock", 6379],
    ["redlocks", 6379],
  ]),
  expected: "redlock://h1,h2,h3/db or redlocks://h1,h2,h3/db",
  parameters: PARAMETERS,
};
const FEWEST_NODES = 3;
const MOST_NODES = 15;
/** An answer that comes later than its vote was waited for is still seen, and given back. */
const LATE_ANSWERS = 2;

/** A vote is worth little when most of the ttl has gone by; and a busy machine needs some time. */
export const TTL_SHARE = 3;
const SHORTEST_TIMEOUT_MS = 50;

/** How long to wait for what the nodes say of a claim with this ttl. */
export function timeoutFor(ttlMs: number, { timeoutMs }: RedlockSettings): number {
  return Math.min(timeoutMs, Math.max(ttlMs / TTL_SHARE, SHORTEST_TIMEOUT_MS));
}

export function readRedlockOptions(given: RedlockOptions): RedlockSettings {
  knownEngineOptions(given, KNOWN, "redlock");
  const { url, clients, tls } = given;
  if ((url === undefined) === (clients === undefined))
    throw invalidOption("redlock: give either a url or clients.");
  if (clients !== undefined && tls !== undefined) throw invalidOption("tls: the clients have it already.");
  const { targets, parameters } = url === undefined ? fromClients(clients) : fromUrl(url, tls);
  const options = withParameters(given, parameters, KNOWN);
  const { fresh = false, timeout = "1s", maxTtl = "1m" } = options;
  if (typeof fresh !== "boolean") throw invalidOption("fresh: must be true or false.");
  const timeoutMs = durationMs("timeout", timeout, { minMs: 10, maxMs: 30_000 });
  const maxTtlMs = Math.ceil(durationMs("maxTtl", maxTtl, { minMs: 100, maxMs: 86_400_000 }));
  if (options.ttl !== undefined) refuseLongerThan(maxTtlMs, "ttl", ttlOption(options.ttl));
  const common = readCommonOptions(options);
  const { prefix, retentionMs } = common;
  const perNode = { ...common, replicas: 0, timeoutMs: LATE_ANSWERS * timeoutMs };
  const nodes = targets.map(({ where, ...target }) => ({ where, settings: { ...perNode, ...target } }));
  return { nodes, prefix, maxTtlMs, fresh, retentionMs, timeoutMs };
}

interface Targets {
  readonly targets: readonly ({ readonly where: string } & Pick<RedisSettings, "address" | "client">)[];
  /** What the URL says of the options. */
  readonly parameters: object;
}

function fromUrl(url: string, tls: TlsOptions | undefined): Targets {
  const { scheme, hosts, path, parameters, ...credentials } = parseAddress(FORM, url);
  const places = hosts.map((host) => describeHosts({ hosts: [host] }));
  if (new Set(places.map((place) => place.toLowerCase())).size < places.length) {
    throw invalidUrl("it names a server twice, and one server has one vote", "Redlock");
  }
  assertEnough(hosts.length);
  const secure = "redlocks";
  const server = readServer("Redlock", path, parameters, tls, { isSecure: scheme === secure, secure });
  const targets = hosts.map((host, index) => ({
    where: places[index] ?? "",
    client: undefined,
    address: { ...credentials, ...server, kind: "single" as const, hosts: [host] },
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
  const toTarget = (client: IoredisLike | NodeRedisLike, index: number) => {
    return { where: `client ${index + 1}`, client, address: undefined };
  };
  return { targets: clients.map(toTarget), parameters: {} };
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
