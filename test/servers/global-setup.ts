import type { TestProject } from "vitest/node";
import { OPENSSL_PROGRAM } from "./certificates.js";
import { ETCD_PROGRAM, ETCDCTL_PROGRAM, type EtcdNode, startEtcd } from "./etcd.js";
import { MARIADB_PROGRAM, startMariadb } from "./mariadb.js";
import { PGBOUNCER_PROGRAM, POSTGRES_PROGRAM, startPostgres } from "./postgres.js";
import { IP_PROGRAM } from "./private-network.js";
import { ensurePrograms } from "./programs.js";
import {
  REDIS_PROGRAM,
  type RedisNode,
  startRedisCluster,
  startRedisSentinel,
  startRedisSingle,
} from "./redis.js";
import { allOrNone, type Stoppable, stopAll } from "./server-process.js";
import { CURATOR_PROGRAMS, ZOOKEEPER_PROGRAMS } from "./zookeeper.js";

export interface ProvidedNode {
  port: number;
  pid: number;
}

/** What tests get from inject(). The lists of nodes are empty for a server named by the environment. */
export interface ProvidedRedis {
  url: string;
  /** For a cluster in the order of their slots; behind sentinels the master of the start comes first. */
  nodes: ProvidedNode[];
}

export interface ProvidedEtcd {
  url: string;
  nodes: { host: string; port: number }[];
}

export interface ProvidedDatabase {
  url: string;
  host: string;
  port: number;
}

declare module "vitest" {
  interface ProvidedContext {
    redisSingle: ProvidedRedis;
    redisCluster: ProvidedRedis;
    redisSentinel: ProvidedRedis & { sentinels: ProvidedNode[] };
    /** One server, and an ensemble of three. */
    etcd: ProvidedEtcd;
    etcdEnsemble: ProvidedEtcd;
    postgres: ProvidedDatabase;
    mariadb: ProvidedDatabase;
  }
}

/**
 * Starts the servers that all tests share. No handler for signals is needed here: a run that is interrupted
 * without its teardown leaves no server behind, since each of them ends with this process (ServerProcess).
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = {
    redisSingle: process.env.LOCKTENDER_TEST_REDIS_URL,
    redisCluster: process.env.LOCKTENDER_TEST_REDIS_CLUSTER_URL,
    redisSentinel: process.env.LOCKTENDER_TEST_REDIS_SENTINEL_URL,
    postgres: process.env.LOCKTENDER_TEST_POSTGRES_URL,
    mariadb: process.env.LOCKTENDER_TEST_MYSQL_URL,
  };
  if (given.postgres) project.provide("postgres", databaseAt(given.postgres));
  if (given.mariadb) project.provide("mariadb", databaseAt(given.mariadb));
  if (given.redisSingle) project.provide("redisSingle", { url: given.redisSingle, nodes: [] });
  if (given.redisCluster) project.provide("redisCluster", { url: given.redisCluster, nodes: [] });
  if (given.redisSentinel) {
    project.provide("redisSentinel", { url: given.redisSentinel, nodes: [], sentinels: [] });
  }

  // Here and not only where they are used: the tests run side by side, and only one of them could install.
  await ensurePrograms([
    REDIS_PROGRAM,
    ETCD_PROGRAM,
    ETCDCTL_PROGRAM,
    OPENSSL_PROGRAM,
    IP_PROGRAM,
    POSTGRES_PROGRAM,
    PGBOUNCER_PROGRAM,
    MARIADB_PROGRAM,
    ...ZOOKEEPER_PROGRAMS,
    ...CURATOR_PROGRAMS,
  ]);
  const starting: Promise<Stoppable>[] = [
    provideEtcd(project, "etcd", 1),
    provideEtcd(project, "etcdEnsemble", 3),
  ];
  if (!given.postgres) starting.push(provideDatabase(project, "postgres", startPostgres()));
  if (!given.mariadb) starting.push(provideDatabase(project, "mariadb", startMariadb()));
  if (!given.redisSingle) starting.push(provideSingle(project));
  if (!given.redisCluster) starting.push(provideCluster(project));
  if (!given.redisSentinel) starting.push(provideSentinel(project));
  const running = await allOrNone(starting);
  return () => stopAll(running);
}

async function provideEtcd(
  project: TestProject,
  name: "etcd" | "etcdEnsemble",
  members: number,
): Promise<Stoppable> {
  const server = await startEtcd({ members });
  const nodes = server.nodes.map(({ host, port }: EtcdNode) => ({ host, port }));
  project.provide(name, { url: server.url, nodes });
  return server;
}

function databaseAt(url: string): ProvidedDatabase {
  const { hostname, port } = new URL(url);
  return { url, host: hostname, port: Number(port) };
}

async function provideDatabase(
  project: TestProject,
  name: "postgres" | "mariadb",
  starting: Promise<ProvidedDatabase & Stoppable>,
): Promise<Stoppable> {
  const server = await starting;
  const { url, host, port } = server;
  project.provide(name, { url, host, port });
  return server;
}

async function provideSingle(project: TestProject): Promise<Stoppable> {
  const redis = await startRedisSingle();
  project.provide("redisSingle", { url: redis.url, nodes: [redis.node].map(describeNode) });
  return redis;
}

async function provideCluster(project: TestProject): Promise<Stoppable> {
  const redis = await startRedisCluster();
  project.provide("redisCluster", { url: redis.url, nodes: redis.nodes.map(describeNode) });
  return redis;
}

async function provideSentinel(project: TestProject): Promise<Stoppable> {
  const redis = await startRedisSentinel();
  project.provide("redisSentinel", {
    url: redis.url,
    nodes: [redis.master, ...redis.replicas].map(describeNode),
    sentinels: redis.sentinels.map(describeNode),
  });
  return redis;
}

function describeNode(node: RedisNode): ProvidedNode {
  return { port: node.port, pid: node.process.pid };
}
