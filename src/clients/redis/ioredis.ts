import { GIVEN } from "../../core/backend.js";
import { hasMethods, partOf } from "../../core/errors.js";
import { installed } from "../../engine-kit/client-library.js";
import { countIn } from "../../engine-kit/replies.js";
import type { Host } from "../../engine-kit/url.js";
import {
  breakable,
  connectOwn,
  type Emitter,
  KEEP_ALIVE_MS,
  type RedisClient,
  SCAN_COUNT,
  type Script,
  type SentinelClient,
  type Subscription,
  serverOf,
  streamTls,
  timeoutPerHost,
} from "./client.js";
import { NOT_OPEN, within } from "./errors.js";
import type { Loaded } from "./library.js";
import type { RedisAddress } from "./options.js";
import { readReply } from "./replies.js";

/** The part of a client of ioredis or iovalkey (`Redis` or `Cluster`) that is used here. */
export interface IoredisLike {
  readonly options: object;
  evalsha(sha: string, numberOfKeys: number, ...keysAndArgs: string[]): Promise<unknown>;
  eval(lua: string, numberOfKeys: number, ...keysAndArgs: string[]): Promise<unknown>;
  duplicate(...overrides: never[]): unknown;
}

interface Node extends IoredisLike, Emitter {
  readonly stream?: { unref?(): unknown };
  connect(): Promise<void>;
  disconnect(): void;
  subscribe(channel: string): Promise<unknown>;
  ping(): Promise<unknown>;
  call(...args: readonly string[]): Promise<unknown>;
  select(db: number): Promise<unknown>;
  info(section: string): Promise<string>;
  scan(cursor: string, match: "MATCH", pattern: string, count: "COUNT", number: string): Promise<unknown>;
  duplicate(overrides: object): Node;
  pipeline(commands: readonly (readonly (string | number)[])[]): {
    exec(): Promise<readonly [Error | null, unknown][] | null>;
  };
}

interface Cluster extends Node {
  readonly isCluster: true;
  nodes(role: "master" | "all"): Node[];
}

interface Module {
  readonly Redis: new (options: object) => Node;
  readonly Cluster: new (nodes: readonly object[], options: object) => Cluster;
}

/** How long the server's goodbye is waited for, in a timer that keeps the process alive. Nothing depends on it. */
const GOODBYE_MS = 100;

const METHODS = ["evalsha", "eval", "duplicate"];

/** A pipeline of it has the same commands, and runs none of them by itself. */
export function isIoredis(client: unknown): client is IoredisLike {
  return hasMethods(client, METHODS) && typeof partOf(client, "options") === "object";
}

export function fromIoredis(
  given: IoredisLike,
  timeoutMs: number,
  library = GIVEN,
  close = async () => {},
): RedisClient {
  const client = given as Node;
  const cluster = "isCluster" in client && client.isCluster === true ? (client as Cluster) : undefined;
  const { keyPrefix } = client.options as { keyPrefix?: string };
  return {
    library,
    clustered: cluster !== undefined,
    nodes: () => (cluster?.nodes("all") ?? []).map(hostOf),
    masters: () =>
      (cluster?.nodes("master") ?? [client]).map((node) => ({
        memoryInfo: () => node.info("memory"),
        scan: (cursor, pattern) => node.scan(cursor, "MATCH", pattern, "COUNT", SCAN_COUNT),
      })),
    keyPrefix: keyPrefix ?? "",
    evalSha: (script: Script, keys, args) => client.evalsha(script.sha, keys.length, ...keys, ...args),
    evalText: (script: Script, keys, args) => client.eval(script.lua, keys.length, ...keys, ...args),
    async waitForReplicas(key, replicas, timeoutMs) {
      // A pipeline goes to one node; its first command names the key, because WAIT has none.
      const results = await client
        .pipeline([
          ["pttl", key],
          ["wait", replicas, timeoutMs],
        ])
        .exec();
      const [error, acknowledged] = results?.[1] ?? [new Error("WAIT was not answered"), 0];
      if (error !== null) throw error;
      return readReply(acknowledged, countIn);
    },
    subscribe: (channel, onMessage) =>
      subscribe(cluster?.nodes("all") ?? [client], channel, onMessage, timeoutMs),
    close,
    // Unlike one that has lost its connection, it does not try any more.
    trouble: () => (partOf(client, "status") === "end" ? new Error(NOT_OPEN) : undefined),
  };
}

function hostOf({ options }: Node): Host {
  const { host, port } = options as Host;
  return { host, port };
}

/** Any node of a cluster will do: classic publish/subscribe reaches them all. */
async function subscribe(
  nodes: readonly Node[],
  channel: string,
  onMessage: (message: string) => void,
  timeoutMs: number,
): Promise<Subscription> {
  const node = nodes[Math.floor(Math.random() * nodes.length)];
  if (node === undefined) throw new Error("no node of the cluster is known");
  const subscriber = node.duplicate({
    lazyConnect: true,
    autoResubscribe: false,
    enableOfflineQueue: true,
    keepAlive: KEEP_ALIVE_MS,
    disconnectTimeout: GOODBYE_MS,
    retryStrategy: () => null,
    sentinelRetryStrategy: () => null,
    reconnectOnError: null,
    connectionName: "locktender-bell",
  });
  subscriber.on("error", noop);
  unrefWhenConnected(subscriber);
  const disconnect = disconnecting(subscriber);
  const { broken, broke } = breakable();
  subscriber.on("end", broke);
  const end = () => {
    try {
      disconnect();
    } catch {
      // One that the caller has wrapped may throw. In a timer that would end the process.
    }
    // It waits for the goodbye of a server that may be silent; a new subscription need not.
    broke();
  };
  subscriber.on("message", (_channel: string, message: string) => onMessage(message));
  try {
    await within(subscriber.connect(), timeoutMs);
    await within(subscriber.subscribe(channel), timeoutMs);
  } catch (error) {
    end();
    throw error;
  }
  return { broken, ping: async () => subscriber.ping(), end };
}

/** An idle connection does not keep the process alive: each request does, by the timer that bounds it. */
function unrefWhenConnected(node: Node): void {
  node.on("connect", () => node.stream?.unref?.());
}

/** Ends a client, unless it has ended: then it would wait for its connection to close once more. */
function disconnecting(client: Node): () => void {
  let ended = false;
  client.on("end", () => {
    ended = true;
  });
  return () => {
    if (!ended) client.disconnect();
  };
}

/**
 * A client of our own, of ioredis or of iovalkey, which is made of it: nothing is queued while offline, nothing is
 * sent twice behind our back, and it connects once.
 */
export async function openIoredis(
  address: RedisAddress,
  timeoutMs: number,
  { library, module }: Loaded,
): Promise<RedisClient> {
  const { Redis, Cluster } = classesOf(module);
  const { kind, username, password, tls, db, family, hosts } = address;
  const hostMs = timeoutPerHost(hosts, timeoutMs);
  // A client that connects again by itself would keep the process alive: see connection.ts.
  const never = () => null;
  const withoutLogin = {
    ...(family === undefined ? undefined : { family }),
    ...(tls === undefined ? undefined : { tls: streamTls(tls) }),
    // It asks for INFO, which some users may not; a server that is still loading says so by itself.
    enableReadyCheck: false,
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    connectTimeout: timeoutMs,
    keepAlive: KEEP_ALIVE_MS,
    disconnectTimeout: GOODBYE_MS,
    retryStrategy: never,
  };
  const common = { ...withoutLogin, username, password, connectionName: "locktender" };
  const sentinelAt = (host: Host): SentinelClient => {
    const client = new Redis({ ...withoutLogin, ...host, connectTimeout: hostMs });
    return { client, ask: (command) => client.call(...command), end: disconnecting(client) };
  };
  const client =
    kind === "cluster"
      ? new Cluster(hosts, {
          lazyConnect: true,
          enableOfflineQueue: false,
          enableReadyCheck: false,
          slotsRefreshTimeout: hostMs,
          // The default of 16 attempts would outlast the time that a request may take.
          maxRedirections: 4,
          // While a slot moves, we have a better answer than to try the same again.
          retryDelayOnTryAgain: 5,
          clusterRetryStrategy: never,
          // By itself it looks up addresses, and would hold a certificate against those instead of the names.
          ...(tls ? { dnsLookup: keepName } : undefined),
          redisOptions: common,
        })
      : new Redis({ ...common, ...(await serverOf(address, hostMs, sentinelAt)), db });
  if (kind === "cluster") client.on("+node", unrefWhenConnected);
  else unrefWhenConnected(client);
  const disconnect = disconnecting(client);
  const { broken: ended, broke } = breakable();
  client.on("end", broke);
  const connect = async () => {
    await within(client.connect(), timeoutMs);
    // By itself it would go on with database 0 if there is no such one.
    if (db !== 0) await within(client.select(db), timeoutMs);
  };
  const trouble = await connectOwn(client, connect, disconnect);
  const opened = fromIoredis(client, timeoutMs, installed(library), async () => disconnect());
  return { ...opened, ended, trouble };
}

/** Before version 5.2 of ioredis the class was only the default export. */
function classesOf(imported: unknown): Module {
  const module = imported as Partial<Module> & { readonly default: Module["Redis"] & Module };
  const Redis = module.Redis ?? module.default;
  return { Redis, Cluster: module.Cluster ?? module.default.Cluster };
}

function keepName(host: string, resolved: (error: null, host: string) => void): void {
  resolved(null, host);
}

// A client without a listener for "error" prints to the console; what fails is told by its command.
function noop(): void {}
