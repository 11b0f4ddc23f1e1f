import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import type { Certificate } from "../../servers/certificates.js";
import { freePort, freePorts } from "../../servers/free-port.js";
import { fileOf } from "../../servers/installed.js";
import { allOrNone, ServerProcess, type Stoppable, stopAll } from "../../servers/server-process.js";

export interface RedisNode extends Stoppable {
  /** Where clients find it. */
  port: number;
  /** Where it speaks without TLS, to the tests alone: the same, if it does so to all clients. */
  plainPort: number;
  process: ServerProcess;
}

export interface RedisSingle extends Stoppable {
  url: string;
  node: RedisNode;
}

export interface RedisCluster extends Stoppable {
  url: string;
  /** In the order of their slots: the first third, the second, the last. */
  nodes: RedisNode[];
  /** One of each node that was to have one, in the same order. */
  replicas: RedisNode[];
}

export interface RedisClusterOptions {
  readonly tls?: Certificate;
  /** Which of the three masters have a replica, by their place in the order of slots. */
  withReplica?: readonly number[];
  /** After this time of silence the others take a node for dead. */
  nodeTimeoutMs?: number;
  /** The environment of the replicas. */
  replicaEnv?: Env;
}

export interface RedisSentinelOptions {
  readonly tls?: Certificate;
  /** The environment of the replicas, as for a clock that is wrong. */
  readonly replicaEnv?: Env;
}

export interface RedisSentinel extends Stoppable {
  url: string;
  masterName: string;
  /** Master and replicas as they were at the start: after a failover a replica is the master. */
  master: RedisNode;
  replicas: RedisNode[];
  sentinels: RedisNode[];
}

type Env = Readonly<Record<string, string>>;
type Words = [command: string, ...args: (string | number)[]];

export const REDIS_PROGRAM = { program: "redis-server", package: "redis-server" };

const HOST = "127.0.0.1";
const SLOTS = 16_384;
const MASTERS = 3;
const MASTER_NAME = "mymaster";
const FORM_TIMEOUT_MS = 20_000;
const POLL_MS = 50;
const CONFIG_FILE = "redis.conf";
export const CERTIFICATE_FILE = "cert.pem";
const KEY_FILE = "key.pem";

/** Redis 7 or later: enable-debug-command lets tests use DEBUG. Nothing is kept on disk. */
const DATA_CONFIG = [
  'save ""',
  "appendonly no",
  "enable-debug-command local",
  "repl-diskless-sync-delay 0", // else a master waits 5 s for more replicas to come before it syncs the first
];

export async function startRedisSingle(tls?: Certificate): Promise<RedisSingle> {
  const node = await startNode("redis", await freePort(), DATA_CONFIG, { tls });
  return { url: `${scheme(tls)}://${addresses([node])}`, node, stop: () => node.stop() };
}

export interface RedisServers extends Stoppable {
  readonly nodes: readonly RedisNode[];
  readonly ports: readonly number[];
}

/** Independent servers, as for a quorum; `config` are further lines of their configuration. */
export async function startRedisServers(
  count: number,
  options: { readonly config?: readonly string[]; readonly tls?: Certificate; readonly env?: Env } = {},
): Promise<RedisServers> {
  const { config = [], ...rest } = options;
  const ports = await freePorts(count);
  const starting = ports.map((port) => startNode("voter", port, [...DATA_CONFIG, ...config], rest));
  const nodes = await allOrNone(starting);
  return { nodes, ports, stop: () => stopAll(nodes) };
}

/** Three masters that share the slots evenly, by default without replicas. */
export async function startRedisCluster(options: RedisClusterOptions = {}): Promise<RedisCluster> {
  const { withReplica = [], nodeTimeoutMs = 5_000, replicaEnv, tls } = options;
  const ports = await freePorts(MASTERS + withReplica.length);
  const busPorts = await freePorts(ports.length);
  const running = await allOrNone(
    ports.map((port, index) => {
      const timeout = `cluster-node-timeout ${nodeTimeoutMs}`;
      const bus = ["cluster-enabled yes", `cluster-port ${busPorts[index]}`, timeout];
      const env = index < MASTERS ? undefined : replicaEnv;
      return startNode("cluster", port, [...DATA_CONFIG, ...bus], { tls, env });
    }),
  );
  return await orStop(running, async () => {
    const nodes = running.slice(0, MASTERS);
    const replicas = running.slice(MASTERS);
    const firstSlots = nodes.map((_, index) => Math.floor((SLOTS * index) / MASTERS));
    for (const [index, { plainPort }] of running.entries()) {
      // With epochs that differ from the start, no rounds of gossip are needed to tell the claims apart.
      await askRedis(plainPort, "CLUSTER", "SET-CONFIG-EPOCH", index + 1);
      const lastSlot = (firstSlots[index + 1] ?? SLOTS) - 1;
      const firstSlot = firstSlots[index];
      if (firstSlot !== undefined) await askRedis(plainPort, "CLUSTER", "ADDSLOTSRANGE", firstSlot, lastSlot);
      for (const [other, otherPort] of ports.entries()) {
        if (other < index)
          await askRedis(plainPort, "CLUSTER", "MEET", HOST, otherPort, busPorts[other] ?? 0);
      }
    }
    const signs = ["cluster_state:ok", `cluster_slots_ok:${SLOTS}`, `cluster_known_nodes:${ports.length}`];
    await Promise.all(running.map((node) => untilTold(node.plainPort, ["CLUSTER", "INFO"], signs)));
    for (const [index, replica] of replicas.entries()) {
      await replicate(replica, nodes[withReplica[index] ?? 0]?.plainPort ?? 0);
    }
    return {
      url: `${scheme(tls)}+cluster://${addresses(nodes)}`,
      nodes,
      replicas,
      stop: () => stopAll(running),
    };
  });
}

/** Makes an empty node of a cluster the replica of another, and waits until it has its data. */
async function replicate(replica: RedisNode, masterPort: number): Promise<void> {
  await askRedis(
    replica.plainPort,
    "CLUSTER",
    "REPLICATE",
    String(await askRedis(masterPort, "CLUSTER", "MYID")),
  );
  await untilTold(replica.plainPort, ["INFO", "replication"], ["master_link_status:up"]);
  await untilTold(masterPort, ["INFO", "replication"], ["state=online"]);
}

/** A master with two replicas, watched by three sentinels of which two must agree: fails over in 2-3 s. */
export async function startRedisSentinel(options: RedisSentinelOptions = {}): Promise<RedisSentinel> {
  const { tls, replicaEnv: env } = options;
  const [masterPort = 0, ...replicaPorts] = await freePorts(3);
  const sentinelPorts = await freePorts(3);
  const replicaConfig = [...DATA_CONFIG, `replicaof ${HOST} ${masterPort}`];
  const master = await startNode("master", masterPort, DATA_CONFIG, { tls });
  const running = [master];
  return await orStop(running, async () => {
    const replicas = await allOrNone(
      replicaPorts.map((port) => startNode("replica", port, replicaConfig, { tls, env })),
    );
    running.push(...replicas);
    // A sentinel looks for replicas as it starts and then every 10 s only, so they must be there by then.
    await untilTold(master.plainPort, ["INFO", "replication"], [/state=online[\s\S]*state=online/]);

    const sentinelConfig = [
      `sentinel monitor ${MASTER_NAME} ${HOST} ${masterPort} 2`,
      `sentinel down-after-milliseconds ${MASTER_NAME} 1000`,
      `sentinel failover-timeout ${MASTER_NAME} 3000`,
    ];
    const sentinels = await allOrNone(
      sentinelPorts.map((port) =>
        startNode("sentinel", port, sentinelConfig, { tls, flags: ["--sentinel"] }),
      ),
    );
    running.push(...sentinels);
    const signs = ["status=ok", "slaves=2", "sentinels=3"];
    await Promise.all(sentinels.map((node) => untilTold(node.plainPort, ["INFO", "sentinel"], signs)));
    const url = `${scheme(tls)}+sentinel://${addresses(sentinels)}/${MASTER_NAME}`;
    return { url, masterName: MASTER_NAME, master, replicas, sentinels, stop: () => stopAll(running) };
  });
}

/** Asks one question over a connection of its own, and fails soon when no server answers. */
export async function askRedis(port: number, ...[command, ...args]: Words): Promise<unknown> {
  const redis = new Redis({
    host: HOST,
    port,
    lazyConnect: true,
    enableReadyCheck: false,
    retryStrategy: null,
    connectTimeout: 1_000,
    commandTimeout: 2_000,
  });
  redis.on("error", () => {}); // connect() or call() rejects with it
  try {
    await redis.connect();
    return await redis.call(command, ...args);
  } finally {
    redis.disconnect();
  }
}

/** Asks again until the answer shows all the signs. */
async function untilTold(port: number, question: Words, signs: readonly (string | RegExp)[]): Promise<void> {
  const deadline = performance.now() + FORM_TIMEOUT_MS;
  for (;;) {
    const answer = String(await askRedis(port, ...question));
    if (signs.every((sign) => answer.search(sign) >= 0)) return;
    if (performance.now() > deadline) {
      throw new Error(`Redis on port ${port} never showed ${signs.join(" and ")}, but:\n${answer}`);
    }
    await sleep(POLL_MS);
  }
}

async function startNode(
  name: string,
  port: number,
  config: readonly string[],
  {
    tls,
    flags = [],
    env = {},
  }: { tls?: Certificate | undefined; flags?: readonly string[]; env?: Env | undefined },
): Promise<RedisNode> {
  const plainPort = tls === undefined ? port : await freePort();
  const secured = tls === undefined ? [] : tlsConfig(port);
  const lines = [
    `port ${plainPort}`,
    ...secured,
    `bind ${HOST}`,
    "protected-mode no",
    "daemonize no",
    ...config,
  ];
  const process = await ServerProcess.start({
    name: `${name}-${port}`,
    program: "env",
    // A file and not arguments, because a failover rewrites it: a restarted node must know its new role.
    args: [
      ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
      fileOf("redis", "/usr/bin/redis-server", "/usr/bin/valkey-server"),
      CONFIG_FILE,
      ...flags,
    ],
    files: {
      [CONFIG_FILE]: `${lines.join("\n")}\n`,
      ...(tls && { [CERTIFICATE_FILE]: tls.cert, [KEY_FILE]: tls.key }),
    },
    answers: async (pid) => {
      // Another server may have taken the port a moment before ours; then it is not ours that answers.
      const info = String(await askRedis(plainPort, "INFO", "server"));
      if (!info.includes(`process_id:${pid}\r\n`)) throw new Error(`port ${plainPort} is another server's`);
    },
  });
  return { port, plainPort, process, stop: () => process.stop() };
}

/** TLS for clients and among the servers. */
function tlsConfig(port: number): string[] {
  return [
    `tls-port ${port}`,
    `tls-cert-file ${CERTIFICATE_FILE}`,
    `tls-key-file ${KEY_FILE}`,
    `tls-ca-cert-file ${CERTIFICATE_FILE}`,
    "tls-auth-clients no",
    "tls-replication yes",
    "tls-cluster yes",
  ];
}

function scheme(tls: Certificate | undefined): string {
  return tls === undefined ? "redis" : "rediss";
}

export function addresses(nodes: readonly RedisNode[]): string {
  return nodes.map(({ port }) => `${HOST}:${port}`).join(",");
}

async function orStop<T>(running: readonly Stoppable[], work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await stopAll(running);
    throw error;
  }
}

/** One server of a cluster that has all slots. It refuses calls with keys of several slots, however it is reached. */
export async function startRedisOfCluster(): Promise<RedisSingle> {
  const [port = 0, busPort = 0] = await freePorts(2);
  // Alone it would not learn its own address.
  const bus = ["cluster-enabled yes", `cluster-port ${busPort}`, `cluster-announce-ip ${HOST}`];
  const config = [...DATA_CONFIG, ...bus];
  const node = await startNode("cluster", port, config, {});
  return await orStop([node], async () => {
    await askRedis(port, "CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1);
    await untilTold(port, ["CLUSTER", "INFO"], ["cluster_state:ok"]);
    return { url: `redis://${addresses([node])}`, node, stop: () => node.stop() };
  });
}
