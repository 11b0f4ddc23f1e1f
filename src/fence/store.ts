import { nowMs } from "../core/clock.js";
import { type Duration, durationMs } from "../core/duration.js";
import type { Executor } from "./clients.js";
import { raise } from "./database.js";
import { type RedisLike, run } from "./redis.js";

/** Where the newest token of each resource is kept, for a service that has no transaction to keep it in. */
export interface FenceStore {
  /** In one atomic step, raises the newest token of the resource, unless it is newer already. Says which it is now. */
  raise(resource: string, token: bigint): Promise<bigint>;
}

interface StoreOptions {
  /** How long a resource without writes is remembered, 30 days unless said otherwise. */
  readonly retention?: Duration | undefined;
}

/** For a service of one process, which may forget when it ends. */
export function memoryStore({ retention = "30d" }: StoreOptions = {}): FenceStore {
  const keptMs = durationMs("retention", retention, { minMs: 1_000, infinite: true });
  /** The one that was not seen for the longest time comes first. */
  const seen = new Map<string, { readonly token: bigint; readonly atMs: number }>();
  return {
    async raise(resource, token) {
      const atMs = nowMs();
      for (const [name, last] of seen) {
        if (last.atMs + keptMs >= atMs) break;
        seen.delete(name);
      }
      const before = seen.get(resource)?.token ?? 0n;
      const highest = before > token ? before : token;
      seen.delete(resource);
      seen.set(resource, { token: highest, atMs });
      return highest;
    },
  };
}

/** In the fence's table. A pool will do, since each step is a transaction of its own. */
export function databaseStore(executor: Executor): FenceStore {
  return { raise: async (resource, token) => raise(executor, resource, token) };
}

export function redisStore(client: RedisLike, { retention }: StoreOptions = {}): FenceStore {
  const nothing = { script: "", keys: [] };
  return {
    raise: async (resource, token) => (await run(client, { resource, token }, nothing, retention)).highest,
  };
}
