import { LockError } from "../../core/errors.js";
import type { RedisClient } from "./client.js";
import { isSilence, WITHOUT_TLS, within } from "./errors.js";
import { fromIoredis, isIoredis, openIoredis } from "./ioredis.js";
import { fromNodeRedis, type NodeRedisLike, openNodeRedis } from "./node-redis.js";
import { LIBRARIES, type RedisLibrary, type RedisSettings } from "./options.js";
import { answersWithoutTls } from "./plain-port.js";
import type { RedisAddress, RedisHost } from "./url.js";

/** The client that was brought, or a new one of our own that is connected. */
export async function openClient(
  settings: RedisSettings,
  alsoAt: readonly RedisHost[] = [],
): Promise<RedisClient> {
  const { client, address, library, timeoutMs } = settings;
  // A client that we did not open is not ours to close.
  if (client !== undefined) {
    return isIoredis(client)
      ? fromIoredis(client, timeoutMs)
      : fromNodeRedis(client as NodeRedisLike, timeoutMs);
  }
  if (address === undefined) throw new Error("neither an address nor a client");
  const use = await firstInstalled(library === undefined ? LIBRARIES : [library]);
  const anywhere = { ...address, hosts: distinct([...address.hosts, ...alsoAt]) };
  try {
    return await (use === "redis"
      ? openNodeRedis(anywhere, timeoutMs)
      : openIoredis(anywhere, timeoutMs, use));
  } catch (error) {
    throw (await isPlain(address, error)) ? new Error(WITHOUT_TLS) : error;
  }
}

async function isPlain({ tls, hosts: [host] }: RedisAddress, error: unknown): Promise<boolean> {
  if (tls === undefined || host === undefined || !isSilence(error)) return false;
  return answersWithoutTls(host);
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
  let infos: readonly string[];
  try {
    infos = await within(client.memoryInfo(), timeoutMs);
  } catch (error) {
    // Some hosts forbid INFO. Then the policy cannot be known, and nothing can be said about it.
    if (error instanceof Error && /NOPERM|unknown command/i.test(error.message)) return;
    throw error;
  }
  const policy = infos.map((info) => evictionPolicy(String(info))).find((found) => found !== undefined);
  if (policy === undefined) return;
  throw new LockError(
    "unsupported",
    `Redis at ${where} has maxmemory-policy ${policy} and a limit of its memory, so it may evict locks when that is full. Set maxmemory-policy noeviction, use another server for locks, or accept it: ${how}.`,
  );
}

/** How keys may be evicted, if they may. */
function evictionPolicy(info: string): string | undefined {
  const policy = /maxmemory_policy:(\S+)/.exec(info)?.[1];
  const limit = /maxmemory:(\d+)/.exec(info)?.[1];
  return policy === "noeviction" || limit === "0" ? undefined : policy;
}

function distinct(hosts: readonly RedisHost[]): readonly RedisHost[] {
  return [...new Map(hosts.map((at) => [`${at.host}:${at.port}`, at])).values()];
}

async function firstInstalled(libraries: readonly RedisLibrary[]): Promise<RedisLibrary> {
  for (const library of libraries) if (await isInstalled(library)) return library;
  const install = libraries.map((library) => `npm install ${library}`).join(", or ");
  throw new LockError("unsupported", `a redis:// URL needs a client library. Install one: ${install}.`);
}

async function isInstalled(library: RedisLibrary): Promise<boolean> {
  try {
    if (library === "ioredis") await import("ioredis");
    else if (library === "redis") await import("redis");
    else await import("iovalkey");
    return true;
  } catch {
    return false;
  }
}
