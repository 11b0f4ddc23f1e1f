import { setMaxListeners } from "node:events";
import { GIVEN } from "../../core/backend.js";
import { hasMethods, partOf } from "../../core/errors.js";
import { exportsOf, installed } from "../../engine-kit/client-library.js";
import { countIn } from "../../engine-kit/reply.js";
import { breakable, fromAnyOf, type RedisClient, type Subscription, streamTls } from "./client.js";
import { NOT_OPEN, within } from "./errors.js";
import type { Loaded } from "./library.js";
import { tendCluster } from "./node-redis-cluster.js";
import { readReply, readScan } from "./replies.js";
import { masterOf, type SentinelClient } from "./sentinels.js";
import { type RedisAddress, type RedisHost, socketOf, timeoutPerHost } from "./url.js";

interface ScriptOptions {
  readonly keys: string[];
  readonly arguments: string[];
}

interface Scripts {
  evalSha(sha: string, options: ScriptOptions): Promise<unknown>;
  eval(lua: string, options: ScriptOptions): Promise<unknown>;
}

/** The part of a node-redis client (`createClient`, `createCluster` or `createSentinel`) that is used here. */
export interface NodeRedisLike extends Scripts {
  sendCommand(...args: never[]): Promise<unknown>;
  subscribe(...args: never[]): Promise<unknown>;
  duplicate(...args: never[]): unknown;
}

interface Emitter {
  on(event: string, listener: (...args: never[]) => void): unknown;
  off(event: string, listener: (...args: never[]) => void): unknown;
}

interface Subscriber {
  subscribe(channel: string, onMessage: (message: string) => void): Promise<unknown>;
  unsubscribe(channel: string, onMessage: (message: string) => void): Promise<unknown>;
}

interface Node extends Scripts, Subscriber, Emitter {
  readonly options?: { readonly socket?: object };
  readonly isOpen: boolean;
  connect(): Promise<unknown>;
  destroy(): void;
  unref?(): void;
  duplicate(overrides: object): Node;
  sendCommand(args: readonly string[]): Promise<unknown>;
}

interface ClusterNode extends RedisHost {
  /** Made when a request first needs that node. */
  client?: { readonly isOpen: boolean; unref(): void } | undefined;
}

export interface Cluster extends Scripts, Emitter {
  readonly masters: readonly ClusterNode[];
  nodeClient(node: object): Promise<Node>;
  connect(): Promise<unknown>;
  destroy(): void;
  sendCommand(key: string, readOnly: boolean, args: readonly string[]): Promise<unknown>;
}

interface Sentinel extends Scripts, Subscriber, Emitter {
  getMasterNode(): unknown;
  sendCommand(readOnly: boolean, args: readonly string[]): Promise<unknown>;
}

interface Module {
  createClient(options: object): Node;
  createCluster(options: object): Cluster;
}

type Send = (args: readonly string[]) => Promise<unknown>;

const SCAN_COUNT = "500";
const KEEP_ALIVE_MS = 10_000;

/** A user without a password is let in by any. But without one the library logs in as the default user instead. */
const ANY_PASSWORD = "any";

const METHODS = ["evalSha", "eval", "sendCommand", "duplicate", "subscribe"];

/** A pool (`createClientPool`) of it has scripts, too, but no subscriptions; a transaction runs nothing by itself. */
export function isNodeRedis(client: unknown): client is NodeRedisLike {
  return hasMethods(client, METHODS);
}

export function fromNodeRedis(
  given: Scripts,
  timeoutMs: number,
  library = GIVEN,
  close = async () => {},
): RedisClient {
  const shape = shapeOf(given, timeoutMs);
  return {
    library,
    clustered: shape.clustered,
    nodes: shape.nodes,
    keyPrefix: "",
    evalSha: (script, keys, args) => given.evalSha(script.sha, { keys: [...keys], arguments: [...args] }),
    evalText: (script, keys, args) => given.eval(script.lua, { keys: [...keys], arguments: [...args] }),
    async waitForReplicas(key, replicas, timeoutMs) {
      const reply = await shape.sendByKey(key, ["WAIT", String(replicas), String(timeoutMs)]);
      return readReply(reply, countIn);
    },
    async *scan(pattern) {
      for (const send of shape.masters()) {
        let cursor = "0";
        do {
          const reply = await send(["SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT]);
          const page = readReply(reply, readScan);
          cursor = page.cursor;
          yield page.keys;
        } while (cursor !== "0");
      }
    },
    memoryInfo: () => {
      const ask = async (send: Send) => String(await within(send(["INFO", "memory"]), timeoutMs));
      return fromAnyOf(shape.masters().map(ask));
    },
    subscribe: shape.subscribe,
    close,
    // Unlike one that has lost its connection, it does not try.
    trouble: () => (partOf(given, "isOpen") === false ? new Error(NOT_OPEN) : undefined),
  };
}

interface Shape {
  readonly clustered: boolean;
  nodes(): readonly RedisHost[];
  sendByKey(key: string, args: readonly string[]): Promise<unknown>;
  masters(): readonly Send[];
  subscribe(channel: string, onMessage: (message: string) => void): Promise<Subscription>;
}

/** What differs between one server, a cluster and a sentinel's master. */
function shapeOf(given: Scripts, timeoutMs: number): Shape {
  if ("masters" in given) {
    const cluster = given as Cluster;
    return {
      clustered: true,
      nodes: () => cluster.masters.map(({ host, port }) => ({ host, port })),
      sendByKey: (key, args) => cluster.sendCommand(key, false, args),
      masters: () =>
        cluster.masters.map((node) => async (args) => (await cluster.nodeClient(node)).sendCommand(args)),
      async subscribe(channel, onMessage) {
        const master = cluster.masters[Math.floor(Math.random() * cluster.masters.length)];
        if (master === undefined) throw new Error("no node of the cluster is known");
        const node = await within(cluster.nodeClient(master), timeoutMs);
        return subscribeAt(node, channel, onMessage, timeoutMs);
      },
    };
  }
  if ("getMasterNode" in given) {
    const sentinel = given as Sentinel;
    const send: Send = (args) => sentinel.sendCommand(false, args);
    return {
      clustered: false,
      nodes: () => [],
      sendByKey: (_key, args) => send(args),
      masters: () => [send],
      subscribe: (channel, onMessage) => inTime(subscribeBySentinel(sentinel, channel, onMessage), timeoutMs),
    };
  }
  const client = given as Node;
  return {
    clustered: false,
    nodes: () => [],
    sendByKey: (_key, args) => client.sendCommand(args),
    masters: () => [(args) => client.sendCommand(args)],
    subscribe: (channel, onMessage) => subscribeAt(client, channel, onMessage, timeoutMs),
  };
}

async function subscribeAt(
  node: Node,
  channel: string,
  onMessage: (message: string) => void,
  timeoutMs: number,
): Promise<Subscription> {
  const { signal, destroy } = destroyer();
  const subscriber = node.duplicate({
    socket: { ...node.options?.socket, reconnectStrategy: false, signal },
  });
  subscriber.unref?.();
  const { broken, broke } = breakable();
  subscriber.on("error", broke);
  subscriber.on("end", broke);
  const end = () => destroy(subscriber);
  try {
    await within(subscriber.connect(), timeoutMs);
    await within(subscriber.subscribe(channel, onMessage), timeoutMs);
  } catch (error) {
    end();
    throw error;
  }
  return { broken, ping: async () => subscriber.sendCommand(["PING"]), end };
}

/** The sentinel client moves its subscriptions to a new master by itself, but messages are lost meanwhile. */
async function subscribeBySentinel(
  sentinel: Sentinel,
  channel: string,
  onMessage: (message: string) => void,
): Promise<Subscription> {
  await sentinel.subscribe(channel, onMessage);
  const { broken, broke } = breakable();
  const end = () => {
    sentinel.off("topology-change", end);
    sentinel.unsubscribe(channel, onMessage).catch(noop);
    broke();
  };
  sentinel.on("topology-change", end);
  // Its connection is out of reach; but it leads to the master, whose silence is noticed by the commands.
  return { broken, ping: async () => undefined, end };
}

/** One that comes too late to be of use is ended: another one has been asked for. */
async function inTime(subscribing: Promise<Subscription>, timeoutMs: number): Promise<Subscription> {
  try {
    return await within(subscribing, timeoutMs);
  } catch (error) {
    subscribing.then((late) => late.end(), noop);
    throw error;
  }
}

/**
 * Destroys a client, also while it is connecting. The library's own `destroy` forgets the socket of a connection
 * that does not stand yet, and that socket would stay open for good (seen with 5.1 and 6.3). All sockets of the client
 * are made with the signal, which ends them.
 */
function destroyer(): {
  readonly signal: AbortSignal;
  readonly destroy: (client: { destroy(): void }) => void;
} {
  const controller = new AbortController();
  // A client of a cluster has a socket for each node. More than ten listeners would be warned of.
  setMaxListeners(0, controller.signal);
  return {
    signal: controller.signal,
    destroy(client) {
      try {
        client.destroy();
      } catch {
        // Up to version 6.0 a client that is closed already throws.
      }
      controller.abort();
    },
  };
}

/** A client of our own: nothing is queued while offline, and it connects once. See connection.ts. */
export async function openNodeRedis(
  address: RedisAddress,
  timeoutMs: number,
  { library, module }: Loaded,
): Promise<RedisClient> {
  const { createClient, createCluster } = exportsOf(module, "createClient") as Module;
  const { kind, username, password, tls, db, family, hosts } = address;
  const { signal, destroy } = destroyer();
  const socket = {
    connectTimeout: timeoutMs,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
    reconnectStrategy: false,
    ...(family === undefined ? undefined : { family }),
    ...(tls && { tls: true, ...streamTls(tls) }),
    // Instead of that of streamTls: any signal makes Node.js listen for all errors of a stream.
    signal,
  };
  const login = { username, password: password ?? (username === undefined ? undefined : ANY_PASSWORD) };
  const common = { ...login, disableOfflineQueue: true, name: "locktender" };
  const hostMs = timeoutPerHost(hosts, timeoutMs);
  if (kind === "cluster") {
    const rootSocket = { connectTimeout: hostMs, socketTimeout: hostMs };
    const cluster = createCluster({
      minimizeConnections: true,
      rootNodes: hosts.map((host) => ({ socket: { ...host, ...rootSocket } })),
      defaults: { ...common, socket },
    });
    return connected(tendCluster(cluster, timeoutMs), library, timeoutMs, destroy, () => false);
  }
  const sentinelAt = (host: RedisHost) =>
    asSentinel(createClient, { ...socket, ...host, connectTimeout: hostMs });
  const host =
    kind === "sentinel" ? await masterOf(address, hostMs, sentinelAt) : hosts[0] && socketOf(hosts[0]);
  const client = createClient({ ...common, database: db, socket: { ...socket, ...host } });
  // An idle connection does not keep the process alive: each request does, by the timer that bounds it.
  client.unref?.();
  return connected(client, library, timeoutMs, destroy, () => !client.isOpen);
}

function asSentinel(createClient: Module["createClient"], socket: object): SentinelClient {
  const { signal, destroy } = destroyer();
  const client = createClient({ socket: { ...socket, signal } });
  return {
    on: (event, listener) => client.on(event, listener),
    connect: () => client.connect(),
    sendCommand: (args) => client.sendCommand(args),
    destroy: () => destroy(client),
  };
}

async function connected(
  client: Node | Cluster,
  library: string,
  timeoutMs: number,
  destroy: (client: Node | Cluster) => void,
  hasEnded: () => boolean,
): Promise<RedisClient> {
  const close = async () => destroy(client);
  let lastError: Error | undefined;
  const { broken: ended, broke } = breakable();
  client.on("error", (error: Error) => {
    lastError = error;
    if (hasEnded()) broke();
  });
  client.on("ready", () => {
    lastError = undefined;
  });
  try {
    await within(client.connect(), timeoutMs);
  } catch (error) {
    await close();
    throw lastError ?? error;
  }
  const opened = fromNodeRedis(client, timeoutMs, installed(library), close);
  return { ...opened, ended, trouble: () => lastError };
}

// Without a listener an "error" event would end the process; what fails is told by its command.
function noop(): void {}
