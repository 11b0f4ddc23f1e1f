/*
 * The one list of engines. What an engine has for the tests is found by its name: in test/engines/<name> its harness
 * (`engine.ts`), its servers (`servers.ts`), and its tests. test/house/engines.test.ts holds src, package.json and
 * these folders to it.
 */

interface Entry {
  /** As the tables name it. */
  readonly title: string;
  /** The client libraries that it may load: optional peers. */
  readonly libraries: readonly string[];
  /** A folder of src that it shares with other engines. What is in `clients` loads the libraries for it. */
  readonly shares?: `clients/${string}` | `backends/${string}`;
  /** The servers that its tests share, which test/engines/<name>/servers.ts starts. */
  readonly servers: readonly string[];
  /** Why there is no history of processes, and no comparison with memory. */
  readonly inProcess?: string;
}

const REDIS_LIBRARIES = ["ioredis", "redis", "iovalkey"] as const;

export const ENGINES = {
  memory: { title: "memory", libraries: [], servers: [], inProcess: "the others are compared with it" },
  sqlite: { title: "SQLite", libraries: ["libsql", "better-sqlite3"], shares: "backends/sql", servers: [] },
  redis: {
    title: "Redis",
    libraries: REDIS_LIBRARIES,
    shares: "clients/redis",
    servers: ["redis", "redis-cluster", "redis-sentinel"],
  },
  redlock: { title: "Redlock", libraries: REDIS_LIBRARIES, shares: "clients/redis", servers: ["redlock"] },
  etcd: {
    title: "etcd",
    libraries: ["@grpc/grpc-js", "@grpc/proto-loader"],
    shares: "backends/session-queue",
    servers: ["etcd", "etcd-ensemble"],
  },
  zookeeper: {
    title: "ZooKeeper",
    libraries: [],
    shares: "backends/session-queue",
    servers: ["zookeeper", "zookeeper-ensemble"],
  },
  postgres: {
    title: "PostgreSQL",
    libraries: ["pg", "postgres"],
    shares: "backends/sql",
    servers: ["postgres"],
  },
  mysql: { title: "MySQL, MariaDB", libraries: ["mysql2"], shares: "backends/sql", servers: ["mariadb"] },
} as const satisfies Record<string, Entry>;

export type EngineName = keyof typeof ENGINES;
/** A server that all tests share. */
export type SharedName = (typeof ENGINES)[EngineName]["servers"][number];

export const ENGINE_NAMES = Object.keys(ENGINES) as EngineName[];
export const entryOf = (name: EngineName): Entry => ENGINES[name];

/** The folder of src whose files load the libraries of an engine. */
export function loaderOf(name: EngineName): string {
  const { shares } = entryOf(name);
  return shares?.startsWith("clients/") ? shares : `backends/${name}`;
}

/** Names the one engine that is tested; without it, all are. */
export const ENGINE_VARIABLE = "LOCKTENDER_TEST_ENGINE";

export function chosenEngines(chosen = process.env[ENGINE_VARIABLE]): readonly EngineName[] {
  if (!chosen) return ENGINE_NAMES;
  const name = ENGINE_NAMES.find((one) => one === chosen);
  if (name === undefined) throw new Error(unknownEngine(chosen));
  return [name];
}

export const unknownEngine = (name: string): string =>
  `there is no engine "${name}" in test/engines.ts; there are: ${ENGINE_NAMES.join(", ")}`;
