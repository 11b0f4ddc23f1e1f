import { createHash } from "node:crypto";
import { socketTls, type TlsSettings } from "../../engine-kit/tls.js";
import type { RedisHost } from "./url.js";

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

/**
 * For a subscription that breaks, and the function that tells it. The listeners are added outside of the promise: what the caller's
 * client throws there would be a rejection of it that is not waited for, and end the process.
 */
export function breakable(): { readonly broken: Promise<void>; readonly broke: () => void } {
  let broke = () => {};
  const broken = new Promise<void>((resolve) => {
    broke = resolve;
  });
  return { broken, broke };
}

/** What this engine needs of a client library. One file per library fits it. */
export interface RedisClient {
  /** Which library it is of, for people. */
  readonly library: string;
  /** Whether keys of different locks must not meet in one script. */
  readonly clustered: boolean;
  /** Where the nodes of the cluster are, as far as it knows; without a cluster, none. */
  nodes(): readonly RedisHost[];
  /** What the caller's client puts in front of every key by itself. */
  readonly keyPrefix: string;
  evalSha(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  evalText(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown>;
  /** How many replicas have acknowledged what this connection wrote to the key's node. */
  waitForReplicas(key: string, replicas: number, timeoutMs: number): Promise<number>;
  /** Batches of keys from every master; may repeat. */
  scan(pattern: string): AsyncIterable<readonly string[]>;
  /** `INFO memory` of every master. */
  memoryInfo(): Promise<readonly string[]>;
  subscribe(channel: string, onMessage: (message: string) => void): Promise<Subscription>;
  close(): Promise<void>;
  /** What the connection of a client of our own last complained of, if it has not been well since. */
  trouble?(): unknown;
  /** Settles when a client of our own has no connection any more. It does not make a new one by itself. */
  readonly ended?: Promise<void>;
}

/** Batches of keys as we have named them. */
export async function* scanKeys(
  client: RedisClient,
  patternFor: (keyPrefix: string) => string,
): AsyncIterable<readonly string[]> {
  const { keyPrefix } = client;
  for await (const batch of client.scan(patternFor(keyPrefix)))
    yield batch.map((key) => key.slice(keyPrefix.length));
}

/** What the nodes say that can be asked: a node that is down is no reason not to use the others. */
export async function fromAnyOf<T>(questions: readonly Promise<T>[]): Promise<readonly T[]> {
  const outcomes = await Promise.allSettled(questions);
  const answers = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  return answers.length > 0 ? answers : Promise.all(questions);
}

/** Runs a script by its hash; scripts vanish on a restart, a failover and SCRIPT FLUSH, at any time. */
export function runScript(
  client: RedisClient,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  return client.evalSha(script, keys, args).catch((error: unknown) => {
    if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
    return client.evalText(script, keys, args);
  });
}

/**
 * For the options of a TLS connection. The clients listen for one error of a stream; Node.js may emit a second one
 * when a certificate was refused, and that would end the process. For a stream with a signal, Node.js itself listens
 * for all errors.
 */
const WITH_ALL_ERRORS_HEARD = { signal: neverAborted() };

export function streamTls(tls: TlsSettings): object {
  return { ...socketTls(tls), ...WITH_ALL_ERRORS_HEARD };
}

/** One for all streams: as it never aborts, it need not remember its listeners. */
function neverAborted(): AbortSignal {
  const { signal } = new AbortController();
  signal.addEventListener = () => {};
  return signal;
}
