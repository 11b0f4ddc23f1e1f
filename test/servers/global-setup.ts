import type { TestProject } from "vitest/node";
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

declare module "vitest" {
  interface ProvidedContext {
    redisSingle: ProvidedRedis;
    redisCluster: ProvidedRedis;
    redisSentinel: ProvidedRedis & { sentinels: ProvidedNode[] };
  }
}

/**
 * Starts the servers that all tests share. No handler for signals is needed here: a run that is interrupted
 * without its teardown leaves no server behind, since each of them ends with this process (ServerProcess).
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const single = process.env.LOCKTENDER_TEST_REDIS_URL;
  const cluster = process.env.LOCKTENDER_TEST_REDIS_CLUSTER_URL;
  const sentinel = process.env.LOCKTENDER_TEST_REDIS_SENTINEL_URL;

  if (single) project.provide("redisSingle", { url: single, nodes: [] });
  if (cluster) project.provide("redisCluster", { url: cluster, nodes: [] });
  if (sentinel) project.provide("redisSentinel", { url: sentinel, nodes: [], sentinels: [] });
  // Here and not only where they are used: the tests run side by side, and only one of them could install.
  const redis = single && cluster && sentinel ? [] : [REDIS_PROGRAM];
  await ensurePrograms([...redis, ...ZOOKEEPER_PROGRAMS, ...CURATOR_PROGRAMS]);

  const starting: Promise<Stoppable>[] = [];
  if (!single) starting.push(provideSingle(project));
  if (!cluster) starting.push(provideCluster(project));
  if (!sentinel) starting.push(provideSentinel(project));
  const running = await allOrNone(starting);
  return () => stopAll(running);
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
