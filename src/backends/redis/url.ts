import { describeHosts, parseAddress } from "../../core/address.js";
import { LockError } from "../../core/errors.js";

export interface RedisHost {
  readonly host: string;
  readonly port: number;
}

export interface RedisAddress {
  readonly kind: "single" | "sentinel" | "cluster";
  readonly hosts: readonly RedisHost[];
  readonly tls: boolean;
  readonly username?: string;
  readonly password?: string;
  readonly db: number;
  /** The name under which the sentinels know the master. */
  readonly master?: string;
}

const SCHEMES = new Map<string, { kind: RedisAddress["kind"]; tls: boolean; port: number }>([
  ["redis", { kind: "single", tls: false, port: 6379 }],
  ["rediss", { kind: "single", tls: true, port: 6379 }],
  ["redis+sentinel", { kind: "sentinel", tls: false, port: 26379 }],
  ["rediss+sentinel", { kind: "sentinel", tls: true, port: 26379 }],
  ["redis+cluster", { kind: "cluster", tls: false, port: 6379 }],
  ["rediss+cluster", { kind: "cluster", tls: true, port: 6379 }],
]);

const PORTS = new Map([...SCHEMES].map(([name, { port }]) => [name, port]));

export function parseRedisUrl(url: string): RedisAddress {
  const { scheme, path, ...address } = parseAddress(
    "Redis",
    url,
    PORTS,
    "redis://host:port/db, redis+sentinel://h1,h2/master or redis+cluster://h1,h2",
  );
  const { kind, tls } = SCHEMES.get(scheme) ?? { kind: "single", tls: false };
  if (kind === "single" && address.hosts.length > 1) {
    throw invalidUrl("several hosts need redis+sentinel:// or redis+cluster://");
  }
  const [first = "", second = ""] = path.split("/");
  const master = kind === "sentinel" ? decodeURIComponent(first) : undefined;
  if (master === "")
    throw invalidUrl("redis+sentinel:// needs the master's name, as in redis+sentinel://h1,h2/mymaster");
  const db = Number((kind === "sentinel" ? second : first) || "0");
  if (!Number.isInteger(db) || db < 0) throw invalidUrl("the database must be a number");
  if (kind === "cluster" && db !== 0) throw invalidUrl("a cluster has only database 0");
  return { ...address, kind, tls, db, ...(master === undefined ? undefined : { master }) };
}

/** For messages: where, without credentials. */
export function describeAddress(address: RedisAddress): string {
  const hosts = describeHosts(address);
  return address.master === undefined ? hosts : `${hosts} (${address.master})`;
}

/** Hosts are asked for the others one after the other: one that is silent leaves time for the next. */
export function patienceWithOneOf(hosts: readonly RedisHost[], timeoutMs: number): number {
  return hosts.length > 1 ? timeoutMs / 2 : timeoutMs;
}

function invalidUrl(why: string): LockError {
  return new LockError("invalid-option", `this Redis URL cannot be used: ${why}.`);
}
