import { LockError } from "../../core/errors.js";

export interface RedisAddress {
  readonly kind: "single" | "sentinel" | "cluster";
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
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

/** Not `new URL`: an address may name several hosts. Nothing of the text is repeated in an error. */
export function parseRedisUrl(url: string): RedisAddress {
  const match = /^([a-z+]+):\/\/(?:([^/?#]*)@)?([^@/?#]*)(?:\/([^?#]*))?$/.exec(url);
  const scheme = SCHEMES.get(match?.[1] ?? "");
  if (match === null || scheme === undefined) {
    throw invalidUrl("expected redis://host:port/db, redis+sentinel://h1,h2/master or redis+cluster://h1,h2");
  }
  const [, , credentials = "", hostList = "", path = ""] = match;
  // Else a part of the password would be taken for a host or the master's name, and be shown in errors.
  if (`${credentials}${path}`.includes("@")) {
    throw invalidUrl("in a user name or password, / is written %2F and @ is written %40");
  }
  const hosts = (hostList || "127.0.0.1").split(",").map((text) => parseHost(text, scheme.port));
  if (scheme.kind === "single" && hosts.length > 1) {
    throw invalidUrl("several hosts need redis+sentinel:// or redis+cluster://");
  }
  const [first = "", second = ""] = path.split("/");
  const master = scheme.kind === "sentinel" ? decode(first) : undefined;
  if (master === "")
    throw invalidUrl("redis+sentinel:// needs the master's name, as in redis+sentinel://h1,h2/mymaster");
  const db = Number((scheme.kind === "sentinel" ? second : first) || "0");
  if (!Number.isInteger(db) || db < 0) throw invalidUrl("the database must be a number");
  if (scheme.kind === "cluster" && db !== 0) throw invalidUrl("a cluster has only database 0");
  const colon = credentials.indexOf(":");
  const username = decode(colon === -1 ? credentials : credentials.slice(0, colon));
  const password = colon === -1 ? "" : decode(credentials.slice(colon + 1));
  return {
    kind: scheme.kind,
    hosts,
    tls: scheme.tls,
    db,
    ...(username === "" ? undefined : { username }),
    ...(password === "" ? undefined : { password }),
    ...(master === undefined ? undefined : { master }),
  };
}

/** For messages: where, without credentials. */
export function describeAddress(address: RedisAddress): string {
  const hosts = address.hosts.map(({ host, port }) => `${host}:${port}`).join(", ");
  return address.master === undefined ? hosts : `${hosts} (${address.master})`;
}

function parseHost(text: string, defaultPort: number): { host: string; port: number } {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3] ?? defaultPort);
  if (host === undefined || port < 1 || port > 65_535) throw invalidUrl("a host must look like name:port");
  return { host, port };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalidUrl("credentials and names must be percent-encoded");
  }
}

function invalidUrl(why: string): LockError {
  return new LockError("invalid-option", `this Redis URL cannot be used: ${why}.`);
}
