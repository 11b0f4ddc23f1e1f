import { LockError } from "../../core/errors.js";
import { plainText } from "../../core/plain-text.js";
import type { RedisClient } from "./client.js";
import { within } from "./errors.js";
import { fromIoredis, isIoredis, openIoredis } from "./ioredis.js";
import { firstInstalled } from "./library.js";
import { fromNodeRedis, type NodeRedisLike, openNodeRedis } from "./node-redis.js";
import { LIBRARIES, type RedisSettings } from "./options.js";
import type { RedisHost } from "./url.js";

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
  const loaded = await firstInstalled(library === undefined ? LIBRARIES : [library]);
  const anywhere = { ...address, hosts: distinct([...address.hosts, ...alsoAt]) };
  const open = loaded.library === "redis" ? openNodeRedis : openIoredis;
  return open(anywhere, timeoutMs, loaded);
}

/** Eviction takes keys with an expiry first: that is, locks. */
export async function refuseEviction(client: RedisClient, timeoutMs: number, where: string): Promise<void> {
  let infos: readonly string[];
  try {
    infos = await within(client.memoryInfo(), timeoutMs);
  } catch (error) {
    // Some hosts forbid INFO. Then the policy cannot be known, and nothing can be said about it.
    if (error instanceof Error && /NOPERM|unknown command/i.test(error.message)) return;
    throw error;
  }
  const policy = infos
    .map((info) => /maxmemory_policy:(\S+)/.exec(String(info))?.[1])
    .find((found) => found !== undefined && found !== "noeviction");
  if (policy === undefined) return;
  throw new LockError(
    "unsupported",
    `Redis at ${where} has maxmemory-policy ${plainText(policy)}, so it may evict locks when its memory is full. Set maxmemory-policy noeviction, use a server of their own for locks, or accept it with { eviction: "accept" }.`,
  );
}

function distinct(hosts: readonly RedisHost[]): readonly RedisHost[] {
  return [...new Map(hosts.map((at) => [`${at.host}:${at.port}`, at])).values()];
}
