import type { Backend } from "./core/backend.js";
import type { Duration } from "./core/duration.js";
import { invalidOption, isLockError, LockError, partOf } from "./core/errors.js";
import { locksCallOf, takerOf } from "./core/misplaced-client.js";
import { isObject, knownOptions } from "./core/options.js";
import { duration, type ParameterTable, readParameters, tidyUrl, withParameters } from "./engine-kit/url.js";
import { createLocks, type Locks } from "./locks/locks.js";
import { DEFAULT_TTL, LOCKS_OPTIONS, type LocksOptions } from "./locks/locks-options.js";

/** The options that a URL says, or that `connect` has itself. */
type Elsewhere = "url" | "ttl" | "client" | "clients" | "pool" | "sql" | "file" | "database" | "prefix";

type Sqlite = Omit<import("./backends/sqlite/index.js").SqliteOptions, Elsewhere>;
type Redis = Omit<import("./backends/redis/index.js").RedisOptions, Elsewhere>;
type Redlock = Omit<import("./backends/redlock/index.js").RedlockOptions, Elsewhere>;
type Etcd = Omit<import("./backends/etcd/index.js").EtcdOptions, Elsewhere>;
type ZooKeeper = Omit<import("./backends/zookeeper/index.js").ZooKeeperOptions, Elsewhere>;
type Postgres = Omit<import("./backends/postgres/index.js").PostgresOptions, Elsewhere>;
type Mysql = Omit<import("./backends/mysql/index.js").MysqlOptions, Elsewhere>;

/** The options of the engines that `connect` takes as `engine`, by the scheme of the URL. */
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

/** What is set for all locks of a connection, and for the engine. An option that is not known is an error. */
export interface ConnectOptions<Url extends string = string> extends LocksOptions {
  /** What the keys of a shared server begin with; `"locktender"` if not given. Only locks of the same prefix meet. */
  readonly prefix?: string | undefined;
  /**
   * Options of the engine, as its page lists them. Those that are plain text may stand in the URL instead.
   *
   * @example
   * ```ts
   * import { connect } from "locktender";
   *
   * const locks = await connect("redis://127.0.0.1:6379", { engine: { library: "ioredis" } });
   * ```
   */
  readonly engine?: EngineOptionsOf<Url> | undefined;
}

const CONNECT_OPTIONS = new Set([...LOCKS_OPTIONS, "prefix", "engine"]);
/** What stands beside `engine`, and what the URL says already. */
const BESIDE = ["prefix", "ttl"];
const IN_URL = ["url", "file"];
const BROUGHT = ["client", "clients", "pool", "sql", "database"];

interface Engine {
  /** Its function and its module are called so. */
  readonly name: string;
  /** The names of its options. */
  known(): Promise<ReadonlySet<string>>;
  /** The options are those of the engine, and `prefix`. */
  open(url: string, options: object, ttl: Duration): Promise<Backend>;
}

const redis: Engine = {
  name: "redis",
  known: async () => (await import("./backends/redis/options.js")).KNOWN,
  open: async (url, options) => (await import("./backends/redis/index.js")).redis({ ...options, url }),
};

const redlock: Engine = {
  name: "redlock",
  known: async () => (await import("./backends/redlock/options.js")).KNOWN,
  open: async (url, options, ttl) =>
    (await import("./backends/redlock/index.js")).redlock({ ...options, url, ttl }),
};

const etcd: Engine = {
  name: "etcd",
  known: async () => (await import("./backends/etcd/options.js")).KNOWN,
  open: async (url, options) => (await import("./backends/etcd/index.js")).etcd({ ...options, url }),
};

const zookeeper: Engine = {
  name: "zookeeper",
  known: async () => (await import("./backends/zookeeper/options.js")).KNOWN,
  open: async (url, options, ttl) =>
    (await import("./backends/zookeeper/index.js")).zookeeper({ ...options, url, ttl }),
};

const postgres: Engine = {
  name: "postgres",
  known: async () => (await import("./backends/postgres/options.js")).KNOWN,
  open: async (url, options) => (await import("./backends/postgres/index.js")).postgres({ ...options, url }),
};

const mysql: Engine = {
  name: "mysql",
  known: async () => (await import("./backends/mysql/options.js")).KNOWN,
  open: async (url, options) => (await import("./backends/mysql/index.js")).mysql({ ...options, url }),
};

const memory: Engine = {
  name: "memory",
  known: async () => new Set(),
  open: async (url, options) => {
    refusePrefix("memory:", options, "give it a name, as in memory:orders");
    refuseSlashes(url, /^memory:\/\//, "memory: or memory:name, without slashes");
    const [start] = withoutQuery("memory", url, { honoured: {}, withoutEffect: [] });
    return (await import("./backends/memory/index.js")).memory(start.slice("memory:".length));
  },
};

const SQLITE_PARAMETERS: ParameterTable = {
  honoured: { retention: duration("retention"), busyTimeout: duration("busyTimeout") },
  withoutEffect: [],
};

const sqlite: Engine = {
  name: "sqlite",
  known: async () => (await import("./backends/sqlite/options.js")).KNOWN,
  open: async (url, options) => {
    refusePrefix("sqlite:", options, "use another file");
    refuseSlashes(
      url,
      /^sqlite:\/\/(?!\/)/,
      "sqlite:path/locks.db, or sqlite:///path/locks.db from the root",
    );
    const [start, parameters] = withoutQuery("sqlite", url, SQLITE_PARAMETERS);
    const merged = withParameters(options, parameters, Object.keys(SQLITE_PARAMETERS.honoured));
    const file = start.slice("sqlite:".length).replace(/^\/\/(?=\/)/, "");
    const module = await import("./backends/sqlite/index.js");
    return module.sqlite(file === "" ? merged : { ...merged, file });
  },
};

const SCHEMES: Readonly<Record<keyof EngineOptions, Engine>> = {
  memory,
  sqlite,
  redis,
  rediss: redis,
  "redis+unix": redis,
  "redis+sentinel": redis,
  "rediss+sentinel": redis,
  "redis+cluster": redis,
  "rediss+cluster": redis,
  valkey: redis,
  valkeys: redis,
  redlock,
  redlocks: redlock,
  etcd,
  etcds: etcd,
  zookeeper,
  zookeepers: zookeeper,
  postgres,
  postgresql: postgres,
  mysql,
  mariadb: mysql,
};

const ENGINES: ReadonlyMap<string, Engine> = new Map(Object.entries(SCHEMES));

/**
 * Opens the engine that the URL names, and makes sure that it answers. Without a URL it is the one in the variable
 * `LOCKTENDER_URL` of the environment. Connect once per program: by two connections, a call chain waits for itself.
 *
 * @example
 * ```ts
 * import { connect } from "locktender";
 *
 * const locks = await connect("redis://127.0.0.1:6379", { ttl: "15s" });
 * await locks.mutex("report").run(() => work());
 * await locks.close();
 * ```
 */
export async function connect<const Url extends string>(
  url?: Url | URL | undefined,
  options: ConnectOptions<Url> = {},
): Promise<Locks> {
  isObject(options, "connect");
  const told = url === undefined ? tellOfVariable : rethrow;
  const text = readUrl(url ?? defaultUrl());
  const engine = await engineOf(text).catch(told);
  const { prefix, engine: given = {}, ...rest } = options;
  await checkOptions(engine, options, given);
  const { ttl = DEFAULT_TTL } = rest;
  const backend = await engine
    .open(text, prefix === undefined ? given : { ...given, prefix }, ttl)
    .catch(told);
  let locks: Locks | undefined;
  try {
    locks = createLocks(backend, rest);
    await askOnce(backend).catch(told);
    return locks;
  } catch (error) {
    await (locks ?? backend).close();
    throw error;
  }
}

/** One harmless question shows that the server is there and lets us in. */
async function askOnce(backend: Backend): Promise<void> {
  for await (const _ of backend.list({ name: "locktender", limit: 1 })) break;
}

/** None is invented: locks of this machine alone would not be noticed to be just that. */
function defaultUrl(): string {
  const url = process.env.LOCKTENDER_URL;
  if (url !== undefined && url.trim() !== "") return url;
  throw invalidOption(
    'connect: give a URL, such as "redis://127.0.0.1:6379", or set the environment variable LOCKTENDER_URL. "sqlite:" locks on this machine alone.',
  );
}

function rethrow(error: unknown): never {
  throw error;
}

/** The code that calls `connect` does not show where such a URL comes from. */
function tellOfVariable(error: unknown): never {
  if (!isLockError(error)) throw error;
  const { code, message, retryable, cause } = error;
  const said = message.replace(/\.$/, "");
  throw new LockError(code, `${said}. The URL is that of the environment variable LOCKTENDER_URL.`, {
    retryable,
    ...(cause === undefined ? undefined : { cause }),
  });
}

function readUrl(given: unknown): string {
  const url = typeof given === "string" ? given : partOf(given, "href");
  if (typeof url === "string") return tidyUrl(url);
  const taker = takerOf(given);
  throw invalidOption(
    taker === undefined
      ? 'connect: the first argument must be a URL such as "redis://127.0.0.1", or undefined for the one in LOCKTENDER_URL.'
      : `connect: the first argument must be a URL. For what is given here, write ${locksCallOf(taker)}.`,
  );
}

async function engineOf(url: string): Promise<Engine> {
  if (url === "") throw invalidOption("connect: the URL is empty. Is the variable set that it comes from?");
  const scheme = /^([a-z+]+):/.exec(url)?.[1];
  const engine = scheme === undefined ? undefined : ENGINES.get(scheme);
  if (engine !== undefined) return engine;
  // The URL may hold a password, so only its scheme is repeated.
  const known = [...ENGINES.keys()].map((name) => `${name}:`);
  const what = scheme === undefined ? "this is not a URL" : `there is no engine for ${scheme}:`;
  throw new LockError("unsupported", `connect: ${what}. Known are ${known.join(" ")}`);
}

/** Those of `connect`, and those that it hands to the engine. An option in the wrong place is told of its place. */
async function checkOptions({ name, known }: Engine, options: object, given: object): Promise<void> {
  isObject(given, "engine");
  const all = await known();
  const strange = Object.keys(options).filter((option) => !CONNECT_OPTIONS.has(option));
  for (const option of [...Object.keys(given), ...strange].filter((one) => all.has(one))) {
    if (IN_URL.includes(option))
      throw invalidOption(`connect: "${option}" is not taken, because the URL says it.`);
    if (BROUGHT.includes(option)) {
      const call = locksCallOf({ engine: name, option });
      throw invalidOption(
        `connect: "${option}" is not taken, because the URL says where the server is. Without a URL, write ${call}.`,
      );
    }
  }
  for (const option of BESIDE) {
    if (option in given)
      throw invalidOption(`engine: ${option} stands beside it: connect(url, { ${option} }).`);
  }
  const taken = new Set([...all].filter((option) => ![...IN_URL, ...BROUGHT, ...BESIDE].includes(option)));
  knownOptions(given, taken, `engine, for ${name}`);
  const misplaced = strange.find((option) => taken.has(option));
  if (misplaced !== undefined) {
    throw invalidOption(
      `connect: ${misplaced} is an option of the engine: connect(url, { engine: { ${misplaced}: … } }).`,
    );
  }
  knownOptions(options, CONNECT_OPTIONS, "connect");
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
