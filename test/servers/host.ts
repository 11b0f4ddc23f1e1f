import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { startEtcd } from "../engines/etcd/server.js";
import { startMariadb } from "../engines/mysql/server.js";
import { startPostgres } from "../engines/postgres/server.js";
import {
  addresses,
  startRedisCluster,
  startRedisSentinel,
  startRedisServers,
  startRedisSingle,
} from "../engines/redis/server.js";
import { startZooKeeper } from "../engines/zookeeper/server.js";
import { type ServerProcess, type Stoppable, stopAll } from "./server-process.js";

export interface SharedNode {
  readonly host: string;
  readonly port: number;
  readonly pid: number;
}

/** What tests learn of a server that they share. */
export interface SharedServer {
  readonly url: string;
  /**
   * For a Redis Cluster in the order of their slots; behind sentinels the master of the start comes first.
   * Empty for a server named by the environment.
   */
  readonly nodes: readonly SharedNode[];
  readonly sentinels: readonly SharedNode[];
}

type Running = Stoppable & SharedServer;
type Node = { readonly host?: string; readonly port: number; readonly process: ServerProcess };

function running(
  server: Stoppable & { url: string },
  nodes: readonly Node[],
  sentinels: readonly Node[] = [],
): Running {
  const describe = ({ host = "127.0.0.1", port, process }: Node) => ({ host, port, pid: process.pid });
  return {
    url: server.url,
    nodes: nodes.map(describe),
    sentinels: sentinels.map(describe),
    stop: () => server.stop(),
  };
}

const SERVERS = {
  redis: async () => {
    const redis = await startRedisSingle();
    return running(redis, [redis.node]);
  },
  "redis-cluster": async () => {
    const redis = await startRedisCluster();
    return running(redis, redis.nodes);
  },
  "redis-sentinel": async () => {
    const redis = await startRedisSentinel();
    return running(redis, [redis.master, ...redis.replicas], redis.sentinels);
  },
  redlock: async () => {
    const voters = await startRedisServers(5);
    return running({ ...voters, url: `redlock://${addresses(voters.nodes)}` }, voters.nodes);
  },
  etcd: async () => inNodes(await startEtcd()),
  "etcd-ensemble": async () => inNodes(await startEtcd({ members: 3 })),
  zookeeper: async () => inNodes(await startZooKeeper()),
  "zookeeper-ensemble": async () => inNodes(await startZooKeeper({ members: 3 })),
  postgres: async () => itself(await startPostgres()),
  mariadb: async () => itself(await startMariadb()),
} satisfies Record<string, () => Promise<Running>>;

export type SharedName = keyof typeof SERVERS;

function inNodes(server: Stoppable & { url: string; nodes: readonly Node[] }): Running {
  return running(server, server.nodes);
}

function itself(server: Stoppable & { url: string } & Node): Running {
  return running(server, [server]);
}

/**
 * Starts each of the servers that tests share when the first test asks for it, by HTTP: the tests run in
 * several processes, and few need all servers.
 */
export async function startHost(): Promise<Stoppable & { readonly url: string }> {
  const started = new Map<string, Promise<Running>>();
  const serve = (name: SharedName): Promise<SharedServer> => {
    const given = process.env[`LOCKTENDER_TEST_${name.toUpperCase().replaceAll("-", "_")}_URL`];
    if (given) return Promise.resolve({ url: given, nodes: [], sentinels: [] });
    const server = started.get(name) ?? SERVERS[name]();
    started.set(name, server);
    return server;
  };
  const host = createServer(async (request, response) => {
    try {
      const { url, nodes, sentinels } = await serve(request.url?.slice(1) as SharedName);
      response.end(JSON.stringify({ url, nodes, sentinels }));
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  });
  host.listen(0, "127.0.0.1");
  await once(host, "listening");
  return {
    url: `http://127.0.0.1:${(host.address() as AddressInfo).port}`,
    stop: async () => {
      host.close();
      host.closeAllConnections();
      const settled = await Promise.allSettled(started.values());
      await stopAll(settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : [])));
    },
  };
}
