import { createHash } from "node:crypto";
import { socketTls, type TlsSettings } from "../../engine-kit/tls.js";
import type { Host } from "../../engine-kit/url.js";
import { within } from "./errors.js";
import type { RedisAddress } from "./options.js";
import { readReply, readScan } from "./replies.js";

/** A script with the hash by which the server remembers it. */
export interface Script {
  readonly lua: string;
  readonly sha: string;
}

export function makeScript(lua: string): Script {
  return { lua, sha: createHash("sha1").update(lua).digest("hex") };
}

/**
 * A standing subscription. It does not mend itself: when it breaks, that is told, and a new one is made. Its
 * connection does not keep the process alive: the timer of a waiter does.
 */
export interface Subscription {
  readonly broken: Promise<void>;
  /** Settles when the server answers on this very connection. */
  ping(): Promise<unknown>;
  end(): void;
}

/** What every master of a cluster is asked for. */
export interface Master {
  /** `INFO memory` */
  memoryInfo(): Promise<unknown>;
  scan(cursor: string, pattern: string): Promise<unknown>;
}

/** What this engine needs of a client library. One file per library fits it. */
export interface RedisClient {
  /** Which library it is of, for people. */
  readonly library: string;
  /** Whether keys of different locks must not meet in one script. */
  readonly clustered: boolean;
  /** Where the nodes of the cluster are, as far as it knows; without a cluster, none. */
  nodes(): readonly Host[];
  /** Of a cluster all that it knows; else the one server. */
  masters(): readonly Master[];
  /** What the caller's client puts in front of every key by itself. */
  readonly keyPrefix: string;
  evalSha(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  evalText(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  /** How many replicas have acknowledged what this connection wrote to the key's node. */
  waitForReplicas(key: string, replicas: number, timeoutMs: number): Promise<number>;
  subscribe(channel: string, onMessage: (message: string) => void): Promise<Subscription>;
  close(): Promise<void>;
  /** What the connection of a client of our own last complained of, if it has not been well since. */
  trouble?(): unknown;
  /** Settles when a client of our own has no connection any more. It does not make a new one by itself. */
  readonly ended?: Promise<void>;
}

/** Runs a script by its hash; scripts vanish on a restart, a failover and SCRIPT FLUSH, at any time. */
export function runScript(
  client: RedisClient,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  return client.evalSha(script, keys, args).catch((error: unknown) => {
    if (!isUnknownScript(error)) throw error;
    return client.evalText(script, keys, args);
  });
}

export function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("NOSCRIPT");
}

/** The key of a lock. In a cluster, the part in braces decides the slot. */
export function lockKey(prefix: string, name: string): string {
  return `${prefix}:{${encodeName(name)}}`;
}

export function nameOfKey(prefix: string, key: string): string | undefined {
  const start = `${prefix}:{`;
  const end = "}";
  if (!key.startsWith(start) || !key.endsWith(end)) return undefined;
  return decodeName(key.slice(start.length, -end.length));
}

/** Braces delimit the hash tag, so a name that contains some must not be able to end it. */
export function encodeName(name: string): string {
  if (!/[%{}]/.test(name)) return name;
  return name.replace(/[%{}]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

export function decodeName(encoded: string): string {
  return encoded.replace(/%(25|7B|7D)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** How many keys a server looks at for one page of a scan. */
export const SCAN_COUNT = "500";

/** The names of the locks that begin so, in batches from every master; may repeat. */
export async function* scanNames(
  client: RedisClient,
  prefix: string,
  namePrefix: string,
): AsyncIterable<readonly string[]> {
  const { keyPrefix } = client;
  const begin = `${keyPrefix}${prefix}:{${encodeName(namePrefix)}`;
  const pattern = `${begin.replace(/[\\*?[\]]/g, "\\$&")}*}`;
  for (const master of client.masters()) {
    let cursor = "0";
    do {
      const page = readReply(await master.scan(cursor, pattern), readScan);
      cursor = page.cursor;
      const names = page.keys.map((key) => nameOfKey(prefix, key.slice(keyPrefix.length)));
      yield names.filter((name) => name?.startsWith(namePrefix)) as string[];
    } while (cursor !== "0");
  }
}

// What the files of the libraries share.

export const KEEP_ALIVE_MS = 10_000;

/**
 * For what breaks at some time, and the function that tells it. The listeners are added outside of the promise: what
 * the caller's client throws there would be a rejection of it that is not waited for, and end the process.
 */
export function breakable(): { readonly broken: Promise<void>; readonly broke: () => void } {
  let broke = () => {};
  const broken = new Promise<void>((resolve) => {
    broke = resolve;
  });
  return { broken, broke };
}

/** The events of a client of our own. Without a listener for "error", that event would end the process. */
export interface Emitter {
  on(event: string, listener: (...args: never[]) => void): unknown;
}

/** Connects a client of our own. The result says what its connection last complained of: a command tells less. */
export async function connectOwn(
  client: Emitter,
  connect: () => Promise<unknown>,
  close: () => void,
): Promise<() => unknown> {
  let lastError: unknown;
  client.on("error", (error: Error) => {
    lastError = error;
  });
  client.on("ready", () => {
    lastError = undefined;
  });
  try {
    await connect();
  } catch (error) {
    close();
    throw lastError ?? error;
  }
  return () => lastError;
}

/** Hosts are asked for the others one after the other: one that is silent leaves time for the next. */
export function timeoutPerHost(hosts: readonly Host[], timeoutMs: number): number {
  return hosts.length > 1 ? timeoutMs / 2 : timeoutMs;
}

/** A client of a sentinel, for one question. */
export interface SentinelClient {
  readonly client: Emitter & { connect(): Promise<unknown> };
  ask(command: readonly string[]): Promise<unknown>;
  end(): void;
}

/** Where the one server is, in the words of both libraries. */
export async function serverOf(
  address: RedisAddress,
  timeoutMs: number,
  sentinelAt: (host: Host) => SentinelClient,
): Promise<{ readonly path: string } | Host | undefined> {
  const { kind, hosts } = address;
  if (kind === "sentinel") return masterOf(address, timeoutMs, sentinelAt);
  return hosts[0]?.host.startsWith("/") ? { path: hosts[0].host } : hosts[0];
}

/**
 * Where the master is. All sentinels are asked at once, and the first answer counts: any of them may be down. As each
 * new connection asks again, it follows a failover.
 */
async function masterOf(
  { hosts, master = "" }: RedisAddress,
  timeoutMs: number,
  sentinelAt: (host: Host) => SentinelClient,
): Promise<Host> {
  const askAt = async (host: Host): Promise<Host> => {
    const { client, ask, end } = sentinelAt(host);
    let trouble: Error | undefined;
    // What a command says tells less.
    client.on("error", (error: Error) => {
      trouble ??= error;
    });
    try {
      await within(client.connect(), timeoutMs);
      const reply = await within(ask(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", master]), timeoutMs);
      if (!Array.isArray(reply)) throw new Error(`the sentinel knows no master "${master}"`);
      return { host: String(reply[0]), port: Number(reply[1]) };
    } catch (error) {
      throw trouble ?? error;
    } finally {
      end();
    }
  };
  return Promise.any(hosts.map(askAt));
}

/**
 * For the options of a TLS connection. The clients listen for one error of a stream; Node.js may emit a second one
 * when a certificate was refused, and that would end the process. For a stream with a signal, Node.js itself listens
 * for all errors.
 */
export function streamTls(tls: TlsSettings): object {
  return { ...socketTls(tls), signal: NEVER_ABORTED };
}

/** One for all streams: as it never aborts, it need not remember its listeners. */
const NEVER_ABORTED = new AbortController().signal;
NEVER_ABORTED.addEventListener = () => {};
