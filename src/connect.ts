import type { Backend } from "./core/backend.js";
import type { Duration } from "./core/duration.js";
import { invalidOption, LockError } from "./core/errors.js";
import { isObject, knownOptions } from "./core/options.js";
import { duration, type ParameterTable, readParameters, withParameters } from "./core/parameters.js";
import { createLocks, type Locks } from "./locks/locks.js";
import { DEFAULT_TTL, LOCKS_OPTIONS, type LocksOptions } from "./locks/locks-options.js";

/** The options that a URL says, or that `connect` has itself. */
type Elsewhere = "url" | "ttl" | "client" | "clients" | "pool" | "sql" | "file" | "database" | "prefix";

type Sqlite = Omit<import("./backends/sqlite/index.js").SqliteOptions, Elsewhere>;
type Redis = Omit<import("./backends/redis/index.js").RedisOptions, Elsewhere>;
type Redlock = Omit<import("./backends/quorum/index.js").RedlockOptions, Elsewhere>;
type Etcd = Omit<import("./backends/etcd/index.js").EtcdOptions, Elsewhere>;
type ZooKeeper = Omit<import("./backends/zookeeper/index.js").ZooKeeperOptions, Elsewhere>;
type Postgres = Omit<import("./backends/postgres/index.js").PostgresOptions, Elsewhere>;
type Mysql = Omit<import("./backends/mysql/index.js").MysqlOptions, Elsewhere>;

/** The options of the engines that `connect` takes, by the scheme of the URL. */
export interface EngineOptions {
  memory: Readonly<Record<string, never>>;
  sqlite: Sqlite;
  redis: Redis;
  rediss: Redis;
  "redis+unix": Redis;
  "redis+sentinel": Redis;
  "rediss+sentinel": Redis;
  "redis+cluster": Redis;
  "rediss+cluster": Redis;
  valkey: Redis;
  valkeys: Redis;
  redlock: Redlock;
  redlocks: Redlock;
  etcd: Etcd;
  etcds: Etcd;
  zookeeper: ZooKeeper;
  zookeepers: ZooKeeper;
  postgres: Postgres;
  postgresql: Postgres;
  mysql: Mysql;
  mariadb: Mysql;
}

/** The options for this URL; those of any engine where the compiler does not know its scheme. */
export type EngineOptionsOf<Url extends string> =
  Url extends `${infer Scheme extends keyof EngineOptions}:${string}`
    ? EngineOptions[Scheme]
    : EngineOptions[keyof EngineOptions];

export interface ConnectOptions<Url extends string = string> extends LocksOptions {
  /** What the keys of a shared server begin with; `"locktender"` if not given. */
  readonly prefix?: string | undefined;
  /** Options of the engine, as its page lists them. Those that are plain text may stand in the URL instead. */
  readonly engine?: EngineOptionsOf<Url> | undefined;
}

const CONNECT_OPTIONS = new Set([...LOCKS_OPTIONS, "prefix", "engine"]);
const ELSEWHERE = ["url", "client", "clients", "pool", "sql", "file", "database"];

/** The options are those of the engine, and `prefix`. */
type Open = (url: string, options: object, ttl: Duration) => Promise<Backend>;

const openRedis: Open = async (url, options) =>
  (await import("./backends/redis/index.js")).redis({ ...options, url });

const openRedlock: Open = async (url, options, ttl) =>
  (await import("./backends/quorum/index.js")).redlock({ ...options, url, ttl });

const openEtcd: Open = async (url, options) =>
  (await import("./backends/etcd/index.js")).etcd({ ...options, url });

const openZooKeeper: Open = async (url, options, ttl) =>
  (await import("./backends/zookeeper/index.js")).zookeeper({ ...options, url, ttl });

const openPostgres: Open = async (url, options) =>
  (await import("./backends/postgres/index.js")).postgres({ ...options, url });

const openMysql: Open = async (url, options) =>
  (await import("./backends/mysql/index.js")).mysql({ ...options, url });

const openMemory: Open = async (url, options) => {
  refusePrefix("memory:", options, "give it a name, as in memory:orders");
  refuseSlashes(url, /^memory:\/\//, "memory: or memory:name, without slashes");
  knownOptions(options, new Set(), "memory");
  const [start] = withoutQuery("memory", url, { honoured: {}, withoutEffect: [] });
  const { memory } = await import("./backends/memory/index.js");
  return memory(start.slice("memory:".length));
};

const SQLITE_PARAMETERS: ParameterTable = {
  honoured: { retention: duration("retention"), busyTimeout: duration("busyTimeout") },
  withoutEffect: [],
};

const openSqlite: Open = async (url, options) => {
  refusePrefix("sqlite:", options, "use another file");
  refuseSlashes(url, /^sqlite:\/\/(?!\/)/, "sqlite:path/locks.db, or sqlite:///path/locks.db from the root");
  const [start, parameters] = withoutQuery("sqlite", url, SQLITE_PARAMETERS);
  const merged = withParameters(options, parameters, Object.keys(SQLITE_PARAMETERS.honoured));
  const { sqlite } = await import("./backends/sqlite/index.js");
  const file = start.slice("sqlite:".length).replace(/^\/\/(?=\/)/, "");
  return sqlite(file === "" ? merged : { ...merged, file });
};

const ENGINES: Readonly<Record<keyof EngineOptions, Open>> = {
  memory: openMemory,
  sqlite: openSqlite,
  redis: openRedis,
  rediss: openRedis,
  "redis+unix": openRedis,
  "redis+sentinel": openRedis,
  "rediss+sentinel": openRedis,
  "redis+cluster": openRedis,
  "rediss+cluster": openRedis,
  valkey: openRedis,
  valkeys: openRedis,
  redlock: openRedlock,
  redlocks: openRedlock,
  etcd: openEtcd,
  etcds: openEtcd,
  zookeeper: openZooKeeper,
  zookeepers: openZooKeeper,
  postgres: openPostgres,
  postgresql: openPostgres,
  mysql: openMysql,
  mariadb: openMysql,
};

const OPENERS: ReadonlyMap<string, Open> = new Map(Object.entries(ENGINES));

/**
 * Opens the engine that the URL names, and makes sure that it answers. Without a URL it is the one in the variable
 * `LOCKTENDER_URL` of the environment.
 *
 * @example
 * ```ts
 * const locks = await connect("redis://127.0.0.1:6379", { ttl: "15s" });
 * await locks.mutex("report").run(() => print());
 * await locks.close();
 * ```
 */
export async function connect<const Url extends string>(
  url?: Url | undefined,
  options: ConnectOptions<Url> = {},
): Promise<Locks> {
  knownOptions(options, CONNECT_OPTIONS, "connect");
  const { prefix, engine = {}, ...rest } = options;
  const { ttl = DEFAULT_TTL } = rest;
  const backend = await openBackend(url ?? defaultUrl(), readEngineOptions(engine, prefix), ttl);
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

/** None is invented: locks of this machine alone would not be noticed to be just that. */
function defaultUrl(): string {
  const url = process.env.LOCKTENDER_URL;
  if (url !== undefined && url !== "") return url;
  throw invalidOption(
    'connect: give a URL, such as "redis://127.0.0.1:6379", or set the environment variable LOCKTENDER_URL. "sqlite:" locks on this machine alone.',
  );
}

function readEngineOptions(engine: object, prefix: string | undefined): object {
  isObject(engine, "engine");
  for (const name of ELSEWHERE) {
    if (name in engine)
      throw invalidOption(
        `engine: "${name}" is not taken here, because the URL says where the server is. What is yours already goes to the engine's own module, and that to createLocks.`,
      );
  }
  for (const name of ["prefix", "ttl"]) {
    if (name in engine) throw invalidOption(`engine: ${name} stands beside it: connect(url, { ${name} }).`);
  }
  return prefix === undefined ? engine : { ...engine, prefix };
}

async function openBackend(url: string, options: object, ttl: Duration): Promise<Backend> {
  if (typeof url !== "string") {
    throw invalidOption(
      'connect: the first argument must be a URL such as "redis://127.0.0.1", or undefined for the one in LOCKTENDER_URL.',
    );
  }
  if (url === "") throw invalidOption("connect: the URL is empty. Is the variable set that it comes from?");
  const scheme = /^([a-z+]+):/.exec(url)?.[1];
  const open = scheme === undefined ? undefined : OPENERS.get(scheme);
  if (open !== undefined) return open(url, options, ttl);
  // The URL may hold a password, so only its scheme is repeated.
  const known = [...OPENERS.keys()].map((name) => `${name}:`);
  const what = scheme === undefined ? "this is not a URL" : `there is no engine for ${scheme}:`;
  throw new LockError("unsupported", `connect: ${what}. Known are ${known.join(" ")}`);
}

function withoutQuery(engine: string, url: string, table: ParameterTable): [start: string, set: object] {
  const at = url.indexOf("?");
  if (at === -1) return [url, {}];
  return [url.slice(0, at), readParameters(engine, url.slice(at + 1), table)];
}

function refusePrefix(engine: string, options: object, instead: string): void {
  if ("prefix" in options)
    throw invalidOption(`prefix: ${engine} is not shared with anything else; ${instead}.`);
}

/** What follows would be taken for another file, or another name, than the one that is meant. */
function refuseSlashes(url: string, wrong: RegExp, right: string): void {
  if (wrong.test(url))
    throw invalidOption(`connect: after // comes a host, and there is none. Write ${right}.`);
}
