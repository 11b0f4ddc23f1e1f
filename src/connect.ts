import type { Backend } from "./core/backend.js";
import { invalidOption, LockError } from "./core/errors.js";
import { knownOptions } from "./core/options.js";
import { orderTogether } from "./locks/in-order.js";
import { createLocks, LOCKS_OPTIONS, type Locks, type LocksOptions } from "./locks/locks.js";

export interface ConnectOptions extends LocksOptions {
  /** What the keys of a shared server begin with; `"locktender"` if not given. */
  readonly prefix?: string;
}

const CONNECT_OPTIONS = new Set([...LOCKS_OPTIONS, "prefix"]);

type Open = (url: string, prefix: string | undefined) => Promise<Backend>;

const openRedis: Open = async (url, prefix) => {
  const { redis } = await import("./backends/redis/index.js");
  return redis(prefix === undefined ? { url } : { url, prefix });
};

const openRedlock: Open = async (url, prefix) => {
  const { redlock } = await import("./backends/quorum/index.js");
  return redlock(prefix === undefined ? { url } : { url, prefix });
};

const openEtcd: Open = async (url, prefix) => {
  const { etcd } = await import("./backends/etcd/index.js");
  return etcd(prefix === undefined ? { url } : { url, prefix });
};

const openZooKeeper: Open = async (url, prefix) => {
  const { zookeeper } = await import("./backends/zookeeper/index.js");
  return zookeeper(prefix === undefined ? { url } : { url, prefix });
};

const openPostgres: Open = async (url, prefix) => {
  const { postgres } = await import("./backends/postgres/index.js");
  return postgres(prefix === undefined ? { url } : { url, prefix });
};

const openMysql: Open = async (url, prefix) => {
  const { mysql } = await import("./backends/mysql/index.js");
  return mysql(prefix === undefined ? { url } : { url, prefix });
};

const openMemory: Open = async (url, prefix) => {
  refusePrefix("memory:", prefix, "give it a name, as in memory:orders");
  refuseSlashes(url, /^memory:\/\//, "memory: or memory:name, without slashes");
  const { memory } = await import("./backends/memory/index.js");
  return memory(url.slice("memory:".length));
};

const openSqlite: Open = async (url, prefix) => {
  refusePrefix("sqlite:", prefix, "use another file");
  refuseSlashes(url, /^sqlite:\/\/(?!\/)/, "sqlite:path/locks.db, or sqlite:///path/locks.db from the root");
  const { sqlite } = await import("./backends/sqlite/index.js");
  const file = url.slice("sqlite:".length).replace(/^\/\/(?=\/)/, "");
  return sqlite(file === "" ? {} : { file });
};

const ENGINES = new Map<string, Open>([
  ["memory", openMemory],
  ["sqlite", openSqlite],
  ["redis", openRedis],
  ["rediss", openRedis],
  ["redis+sentinel", openRedis],
  ["rediss+sentinel", openRedis],
  ["redis+cluster", openRedis],
  ["rediss+cluster", openRedis],
  ["redlock", openRedlock],
  ["redlocks", openRedlock],
  ["etcd", openEtcd],
  ["etcds", openEtcd],
  ["zookeeper", openZooKeeper],
  ["zookeepers", openZooKeeper],
  ["postgres", openPostgres],
  ["postgresql", openPostgres],
  ["mysql", openMysql],
  ["mariadb", openMysql],
]);

/** Opens the engine that the URL names, and makes sure that it answers. */
export async function connect(url: string, options: ConnectOptions = {}): Promise<Locks> {
  knownOptions(options, CONNECT_OPTIONS, "connect");
  const { prefix, ...rest } = options;
  const backend = await openBackend(url, prefix);
  // Without credentials: they may change, and are not kept.
  orderTogether(backend, `${prefix ?? ""} ${url.replace(/\/\/[^/]*@/, "//")}`);
  let locks: Locks | undefined;
  try {
    locks = createLocks(backend, rest);
    // One harmless question shows that the server is there and lets us in.
    for await (const _ of backend.list({ name: "locktender", limit: 1 })) break;
    return locks;
  } catch (error) {
    await (locks ?? backend).close();
    throw error;
  }
}

async function openBackend(url: string, prefix: string | undefined): Promise<Backend> {
  if (typeof url !== "string")
    throw invalidOption('connect: the first argument must be a URL such as "redis://127.0.0.1".');
  const scheme = /^([a-z+]+):/.exec(url)?.[1];
  const open = scheme === undefined ? undefined : ENGINES.get(scheme);
  if (open !== undefined) return open(url, prefix);
  // The URL may hold a password, so only its scheme is repeated.
  const known = [...ENGINES.keys()].map((name) => `${name}:`);
  const what = scheme === undefined ? "this is not a URL" : `there is no engine for ${scheme}:`;
  throw new LockError("unsupported", `connect: ${what}. Known are ${known.join(" ")}`);
}

function refusePrefix(engine: string, prefix: string | undefined, instead: string): void {
  if (prefix !== undefined)
    throw invalidOption(`prefix: ${engine} is not shared with anything else; ${instead}.`);
}

/** What follows would be taken for another file, or another name, than the one that is meant. */
function refuseSlashes(url: string, wrong: RegExp, right: string): void {
  if (wrong.test(url))
    throw invalidOption(`connect: after // comes a host, and there is none. Write ${right}.`);
}
