import { LockError } from "../../core/errors.js";
import { readTls, type TlsOptions, type TlsParameters, type TlsSettings } from "../../engine-kit/tls.js";
import { describeHosts, parseAddress, type UrlForm } from "../../engine-kit/url.js";
import { PARAMETERS, type RedisParameters } from "./parameters.js";

/** The host is the path of a Unix socket if it begins with a slash. */
export interface RedisHost {
  readonly host: string;
  readonly port: number;
}

export interface RedisAddress {
  readonly kind: "single" | "sentinel" | "cluster";
  readonly hosts: readonly RedisHost[];
  readonly tls: TlsSettings | undefined;
  readonly username?: string;
  readonly password?: string;
  readonly db: number;
  readonly family?: 0 | 4 | 6;
  /** The name under which the sentinels know the master. */
  readonly master?: string;
}

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

/** Also what its parameters say of the options. */
export function parseRedisUrl(
  url: string,
  tlsOptions: TlsOptions | undefined,
): { readonly address: RedisAddress; readonly parameters: object } {
  const { scheme, path, parameters, ...address } = parseAddress(FORM, url);
  const { kind, isSecure } = SCHEMES.get(scheme) as Scheme;
  if (kind === "single" && address.hosts.length > 1) {
    throw invalidUrl("several hosts need redis+sentinel:// or redis+cluster://");
  }
  const isSocket = address.hosts.some(({ host }) => host.startsWith("/"));
  if (isSocket && (isSecure || kind !== "single")) {
    throw invalidUrl("a Unix socket leads to one server, and has no TLS");
  }
  const [first = "", second = ""] = path.split("/");
  const master = kind === "sentinel" ? decodeURIComponent(first) : undefined;
  if (master === "")
    throw invalidUrl("redis+sentinel:// needs the master's name, as in redis+sentinel://h1,h2/mymaster");
  const { family } = parameters as RedisParameters;
  const db = readDatabase(kind === "sentinel" ? second : first, parameters as RedisParameters, "Redis");
  if (kind === "cluster" && db !== 0) throw invalidUrl("a cluster has only database 0");
  const secure = scheme.replace(/^(redis|valkey)(?!s)/, "$1s");
  return {
    address: {
      ...address,
      kind,
      tls: readTls(tlsOptions, parameters as TlsParameters, { isSecure, secure }),
      db,
      ...(family === undefined ? undefined : { family }),
      ...(master === undefined ? undefined : { master }),
    },
    parameters,
  };
}

/** A number, in the path or as a parameter. */
export function readDatabase(path: string, { db }: RedisParameters, engine: string): number {
  const number = Number(path || (db ?? 0));
  if (!Number.isInteger(number) || number < 0) throw invalidUrl("the database must be a number", engine);
  if (db !== undefined && db !== number) throw invalidUrl("its path and db name two databases", engine);
  return number;
}

/** For messages: where, without credentials. */
export function describeAddress(address: RedisAddress): string {
  const hosts = describeHosts(address);
  return address.master === undefined ? hosts : `${hosts} (${address.master})`;
}

/** Hosts are asked for the others one after the other: one that is silent leaves time for the next. */
export function timeoutPerHost(hosts: readonly RedisHost[], timeoutMs: number): number {
  return hosts.length > 1 ? timeoutMs / 2 : timeoutMs;
}

/** In the words of both libraries. */
export function socketOf({ host, port }: RedisHost): { readonly path: string } | RedisHost {
  return host.startsWith("/") ? { path: host } : { host, port };
}

function invalidUrl(why: string, engine = "Redis"): LockError {
  return new LockError("invalid-option", `this ${engine} URL cannot be used: ${why}.`);
}
