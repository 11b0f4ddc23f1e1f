import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { etcd } from "locktender/etcd";
import { mysql } from "locktender/mysql";
import { postgres } from "locktender/postgres";
import { type RedisOptions, redis } from "locktender/redis";
import { redlock } from "locktender/redlock";
import { sqlite } from "locktender/sqlite";
import { zookeeper } from "locktender/zookeeper";
import { afterAll } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { declareNew } from "../engines/redlock/harness.js";
import { betterSqlite3 } from "../engines/sqlite/better-sqlite3.js";
import { shared } from "../servers/shared.js";
import { hostsOf } from "../support/hosts-of.js";

const folder = mkdtempSync(join(tmpdir(), "locktender-model-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const servers = {
  redis: await shared("redis"),
  cluster: await shared("redis-cluster"),
  etcd: await shared("etcd"),
  etcds: await shared("etcd-ensemble"),
  zookeeper: await shared("zookeeper"),
  zookeepers: await shared("zookeeper-ensemble"),
  redlock: await shared("redlock"),
  mariadb: await shared("mariadb"),
  postgres: await shared("postgres"),
};
const prefix = `model-${process.pid}`;

const BetterSqlite3 = betterSqlite3();
/** Those that keep a queue. */
export const engines: Readonly<Record<string, () => Backend>> = {
  etcd: () => etcd({ url: servers.etcd.url, prefix }),
  "an etcd ensemble": () => etcd({ url: servers.etcds.url, prefix }),
  zookeeper: () => zookeeper({ url: servers.zookeeper.url, prefix }),
  "a zookeeper ensemble": () => zookeeper({ url: servers.zookeepers.url, prefix }),
  mariadb: () => mysql({ url: servers.mariadb.url, prefix: `model_${process.pid}` }),
  postgres: () => postgres({ url: servers.postgres.url, prefix: `model_${process.pid}` }),
  sqlite: () => sqlite({ file: join(folder, "locks.db") }),
  // Another file: two libraries in one process would drop each other's file locks.
  ...(BetterSqlite3 && {
    "sqlite by better-sqlite3": () => sqlite({ database: new BetterSqlite3(join(folder, "better.db")) }),
  }),
  "redis by ioredis": () => redis(options("redis", "ioredis")),
  "redis by node-redis": () => redis(options("redis", "redis")),
  "a redis cluster": () => redis(options("cluster", "ioredis")),
};

function options(server: "redis" | "cluster", library: "ioredis" | "redis"): RedisOptions {
  return { url: servers[server].url, library, prefix: `${prefix}-${library}` };
}

/** Nodes of a quorum keep no queue, so only what is granted at once can be compared. */
export const quorums: Readonly<Record<string, () => Promise<Backend>>> = {
  "a quorum by ioredis": () => openQuorum("ioredis"),
  "a quorum by node-redis": () => openQuorum("redis"),
};

async function openQuorum(library: "ioredis" | "redis"): Promise<Backend> {
  const { url } = servers.redlock;
  const own = `${prefix}-${library}`;
  const maxTtl = 300_000;
  const ports = hostsOf(url).map(({ port }) => port);
  await declareNew(ports, own, maxTtl);
  return redlock({ url, library, prefix: own, maxTtl });
}
