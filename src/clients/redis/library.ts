import { connect } from "node:net";
import { LockError } from "../../core/errors.js";
import { plainText } from "../../core/plain-text.js";
import { startTimer } from "../../core/timer.js";
import { absent, type LowestVersions, refuseOlder } from "../../engine-kit/client-library.js";
import type { Host } from "../../engine-kit/url.js";
import type { RedisClient } from "./client.js";
import { isSilence, WITHOUT_TLS, within } from "./errors.js";
import { fromIoredis, isIoredis, openIoredis } from "./ioredis.js";
import { fromNodeRedis, type NodeRedisLike, openNodeRedis } from "./node-redis.js";
import { LIBRARIES, type RedisLibrary, type RedisSettings } from "./options.js";

/** A client library, and what it exports. */
export interface Loaded {
  readonly library: RedisLibrary;
  readonly module: unknown;
}

export const LOWEST_VERSIONS: LowestVersions<RedisLibrary> = {
  ioredis: "5.0.0",
  redis: "5.1.0",
  iovalkey: "0.1.0",
};

/** Each import in the form that bundlers know; see `absent`. */
const LOAD: Readonly<Record<RedisLibrary, () => Promise<unknown>>> = {
  async ioredis() {
    try {
      return await import("ioredis");
    } catch (error) {
      return absent("ioredis", error);
    }
  },
  async redis() {
    try {
      return await import("redis");
    } catch (error) {
      return absent("redis", error);
    }
  },
  async iovalkey() {
    try {
      return await import("iovalkey");
    } catch (error) {
      return absent("iovalkey", error);
    }
  },
};

/** The first of them that is installed. */
export async function firstInstalled(libraries: readonly RedisLibrary[]): Promise<Loaded> {
  for (const library of libraries) {
    const module = await LOAD[library]();
    if (module === undefined) continue;
    await refuseOlder(library, LOWEST_VERSIONS);
    return { library, module };
  }
  const install = libraries.map((library) => `npm install ${library}`).join(", or ");
  throw new LockError("unsupported", `a redis:// URL needs a client library. Install one: ${install}.`);
}

/** The client that was brought, or a new one of our own that is connected. */
export async function openClient(
  settings: RedisSettings,
  alsoAt: readonly Host[] = [],
): Promise<RedisClient> {
  const { client, address, library, timeoutMs } = settings;
  // A client that we did not open is not ours to close.
  if (client !== undefined) {
    return isIoredis(client)
      ? fromIoredis(client, timeoutMs)
      : fromNodeRedis(client as NodeRedisLike, timeoutMs);
  }
  if (address === undefined) throw new Error("neither an address nor a client");
  const loaded = await firstInstalled(library === undefined ? LIBRARIES : [library]);
  const anywhere = { ...address, hosts: distinct([...address.hosts, ...alsoAt]) };
  const open = loaded.library === "redis" ? openNodeRedis : openIoredis;
  try {
    return await open(anywhere, timeoutMs, loaded);
  } catch (error) {
    const [host] = address.hosts;
    const isPlain = address.tls && host && isSilence(error) && (await answersWithoutTls(host));
    throw isPlain ? new Error(WITHOUT_TLS) : error;
  }
}

/** Eviction takes keys with an expiry first: that is, locks. It begins when `maxmemory` is used up, and 0 is no limit. */
export async function refuseEviction(
  client: RedisClient,
  { timeoutMs, address }: RedisSettings,
  where: string,
): Promise<void> {
  const how =
    address === undefined
      ? 'redis({ client, eviction: "accept" })'
      : 'connect(url, { engine: { eviction: "accept" } }), or eviction=accept in the URL';
  let infos: readonly unknown[];
  try {
    infos = await fromAnyOf(client.masters().map((master) => within(master.memoryInfo(), timeoutMs)));
  } catch (error) {
    // Some hosts forbid INFO. Then the policy cannot be known, and nothing can be said about it.
    if (error instanceof Error && /NOPERM|unknown command/i.test(error.message)) return;
    throw error;
  }
  const policy = infos.map((info) => evictionPolicy(String(info))).find((found) => found !== undefined);
  if (policy === undefined) return;
  throw new LockError(
    "unsupported",
    `Redis at ${where} has maxmemory-policy ${plainText(policy)} and a limit of its memory, so it may evict locks when that is full. Set maxmemory-policy noeviction, use another server for locks, or accept it: ${how}.`,
  );
}

/** What the nodes say that can be asked: a node that is down is no reason not to use the others. */
async function fromAnyOf<T>(questions: readonly Promise<T>[]): Promise<readonly T[]> {
  const outcomes = await Promise.allSettled(questions);
  const answers = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  return answers.length > 0 ? answers : Promise.all(questions);
}

/** How keys may be evicted, if they may. */
function evictionPolicy(info: string): string | undefined {
  const policy = /maxmemory_policy:(\S+)/.exec(info)?.[1];
  const limit = /maxmemory:(\d+)/.exec(info)?.[1];
  return policy === "noeviction" || limit === "0" ? undefined : policy;
}

function distinct(hosts: readonly Host[]): readonly Host[] {
  return [...new Map(hosts.map((at) => [`${at.host}:${at.port}`, at])).values()];
}

/** A server that is there answers at once. */
const LONGEST_MS = 500;

/**
 * Whether a server speaks without TLS there. Such a server keeps silent when TLS is spoken to it: it takes that for
 * the beginning of a command. So a silence is looked into, once.
 */
function answersWithoutTls({ host, port }: Host): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const over = (answered: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(answered);
    };
    const timer = startTimer(() => over(false), LONGEST_MS);
    socket.on("connect", () => socket.write("PING\r\n"));
    // A status, or the error that one has to log in first.
    socket.on("data", (bytes) => over(/^[+-]/.test(bytes.toString("latin1"))));
    socket.on("error", () => over(false));
    socket.on("close", () => over(false));
  });
}
