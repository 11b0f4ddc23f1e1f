import { GIVEN } from "../../core/backend.js";
import { hasMethods, partOf } from "../../core/errors.js";
import { exportsOf, installed } from "../../engine-kit/client-library.js";
import { countIn } from "../../engine-kit/replies.js";
import type { Host } from "../../engine-kit/url.js";
import {
  breakable,
  connectOwn,
  type Emitter,
  KEEP_ALIVE_MS,
  type Master,
  type RedisClient,
  SCAN_COUNT,
  type SentinelClient,
  type Subscription,
  serverOf,
  streamTls,
  timeoutPerHost,
} from "./client.js";
import { NOT_OPEN, within } from "./errors.js";
import type { Loaded } from "./library.js";
import { destroyer, tendCluster } from "./node-redis-sockets.js";
import type { RedisAddress } from "./options.js";
import { readReply } from "./replies.js";

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

interface Subscriber extends Scripts, Emitter {
  subscribe(channel: string, onMessage: (message: string) => void): Promise<unknown>;
}

interface Node extends Subscriber {
  readonly options?: { readonly socket?: object };
  readonly isOpen: boolean;
  connect(): Promise<unknown>;
  destroy(): void;
  unref?(): void;
  duplicate(overrides: object): Node;
  sendCommand(args: readonly string[]): Promise<unknown>;
}

interface ClusterNode extends Host {
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

interface Sentinel extends Subscriber {
  unsubscribe(channel: string, onMessage: (message: string) => void): Promise<unknown>;
  off(event: string, listener: () => void): unknown;
  getMasterNode(): unknown;
  sendCommand(readOnly: boolean, args: readonly string[]): Promise<unknown>;
}

interface Module {
  createClient(options: object): Node;
  createCluster(options: object): Cluster;
}

type Send = (args: readonly string[]) => Promise<unknown>;

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
  const { sendByKey, ...shape } = shapeOf(given, timeoutMs);
  return {
    ...shape,
    library,
    keyPrefix: "",
    evalSha: (script, keys, args) => given.evalSha(script.sha, { keys: [...keys], arguments: [...args] }),
    evalText: (script, keys, args) => given.eval(script.lua, { keys: [...keys], arguments: [...args] }),
    async waitForReplicas(key, replicas, timeoutMs) {
      const reply = await sendByKey(key, ["WAIT", String(replicas), String(timeoutMs)]);
      return readReply(reply, countIn);
    },
    close,
    // Unlike one that has lost its connection, it does not try.
    trouble: () => (partOf(given, "isOpen") === false ? new Error(NOT_OPEN) : undefined),
  };
}

interface Shape extends Pick<RedisClient, "clustered" | "nodes" | "masters" | "subscribe"> {
  sendByKey(key: string, args: readonly string[]): Promise<unknown>;
}

function masterBy(send: Send): Master {
  return {
    memoryInfo: () => send(["INFO", "memory"]),
    scan: (cursor, pattern) => send(["SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT]),
  };
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
        cluster.masters.map((node) =>
          masterBy(async (args) => (await cluster.nodeClient(node)).sendCommand(args)),
        ),
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
    return {
      ...oneServer((args) => sentinel.sendCommand(false, args)),
      subscribe: (channel, onMessage) => subscribeBySentinel(sentinel, channel, onMessage, timeoutMs),
    };
  }
  const client = given as Node;
  return {
    ...oneServer((args) => client.sendCommand(args)),
    subscribe: (channel, onMessage) => subscribeAt(client, channel, onMessage, timeoutMs),
  };
}

function oneServer(send: Send): Omit<Shape, "subscribe"> {
  return {
    clustered: false,
    nodes: () => [],
    masters: () => [masterBy(send)],
    sendByKey: (_key, args) => send(args),
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
  timeoutMs: number,
): Promise<Subscription> {
  const unsubscribe = () => void sentinel.unsubscribe(channel, onMessage).catch(noop);
  const subscribing = sentinel.subscribe(channel, onMessage);
  try {
    await within(subscribing, timeoutMs);
  } catch (error) {
    // One that comes too late to be of use is ended: another one has been asked for.
    subscribing.then(unsubscribe, noop);
    throw error;
  }
  const { broken, broke } = breakable();
  const end = () => {
    sentinel.off("topology-change", end);
    unsubscribe();
    broke();
  };
  sentinel.on("topology-change", end);
  // Its connection is out of reach; but it leads to the master, whose silence is noticed by the commands.
  return { broken, ping: async () => undefined, end };
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
  const connected = async (client: Node | Cluster): Promise<RedisClient> => {
    const connect = () => within(client.connect(), timeoutMs);
    const trouble = await connectOwn(client, connect, () => destroy(client));
    const close = async () => destroy(client);
    return { ...fromNodeRedis(client, timeoutMs, installed(library), close), trouble };
  };
  if (kind === "cluster") {
    const rootSocket = { connectTimeout: hostMs, socketTimeout: hostMs };
    const cluster = createCluster({
      minimizeConnections: true,
      rootNodes: hosts.map((host) => ({ socket: { ...host, ...rootSocket } })),
      defaults: { ...common, socket },
    });
    return connected(tendCluster(cluster, timeoutMs));
  }
  const sentinelAt = (host: Host): SentinelClient => {
    const { signal, destroy } = destroyer();
    const client = createClient({ socket: { ...socket, ...host, connectTimeout: hostMs, signal } });
    return { client, ask: (command) => client.sendCommand(command), end: () => destroy(client) };
  };
  const host = await serverOf(address, hostMs, sentinelAt);
  const client = createClient({ ...common, database: db, socket: { ...socket, ...host } });
  // An idle connection does not keep the process alive: each request does, by the timer that bounds it.
  client.unref?.();
  const { broken: ended, broke } = breakable();
  client.on("error", () => {
    if (!client.isOpen) broke();
  });
  return { ...(await connected(client)), ended };
}

// Without a listener an "error" event would end the process; what fails is told by its command.
function noop(): void {}
