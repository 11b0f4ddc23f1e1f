import { Redis } from "ioredis";
import { type RedisOptions, redis } from "locktender/redis";
import type { Harness } from "locktender/testing";

const RETENTION_MS = 100;
const FOLLOWS_ITS_OWN_ADDRESSES =
  "its clients connect to the addresses that the servers announce, past any proxy";

/** One engine of the suite: a topology, spoken to by one of the libraries, under keys of its own. */
export function redisHarness(
  topology: "single" | "sentinel" | "cluster",
  library: "ioredis" | "redis" | "iovalkey",
  server: { readonly url: string; readonly nodes: readonly { readonly port: number }[] },
): Harness {
  const prefix = `test-${topology}-${library}-${process.pid}`;
  const options = { url: server.url, library, prefix } satisfies RedisOptions;
  // Servers that were given by their address have no processes of ours, but the same ports.
  const nodes = topology === "sentinel" ? server.nodes : portsOf(server.url);
  const [node] = nodes;
  return {
    engine: `redis ${topology} by ${library}`,
    open: () => redis(options),
    processes: { module: new URL("./worker-backend.mjs", import.meta.url).href, args: options },
    network:
      topology === "single" && node !== undefined
        ? {
            target: { host: "127.0.0.1", port: node.port },
            open: ({ host, port }) => redis({ ...options, url: `redis://${host}:${port}` }),
          }
        : { skip: FOLLOWS_ITS_OWN_ADDRESSES },
    wipe:
      nodes.length > 0
        ? async () => void (await forget(nodes, prefix))
        : { skip: "only the sentinels' addresses are known" },
    leftovers:
      nodes.length > 0
        ? {
            // The server forgets an idle name by itself.
            open: () => redis({ ...options, prefix: `${prefix}-counted`, retention: RETENTION_MS }),
            count: async () => (await keysOf(nodes, `${prefix}-counted`)).length,
            retentionMs: RETENTION_MS,
          }
        : { skip: "only the sentinels' addresses are known" },
    ...(topology !== "single" && {
      crowd: { waiters: 500, why: "the same scripts as on a single server, which has the whole crowd" },
    }),
  };
}

function portsOf(url: string): readonly { readonly port: number }[] {
  return [...url.matchAll(/127\.0\.0\.1:(\d+)/g)].map(([, port]) => ({ port: Number(port) }));
}

/** As a flush would, but only of our own keys: other tests use the same server. */
function forget(nodes: readonly { readonly port: number }[], prefix: string): Promise<readonly string[]> {
  return keysOf(nodes, prefix, (client, key) => client.del(key));
}

/** On all servers that are no replicas. */
async function keysOf(
  nodes: readonly { readonly port: number }[],
  prefix: string,
  withEach: (client: Redis, key: string) => unknown = () => undefined,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const { port } of nodes) {
    const client = new Redis(port, { lazyConnect: true });
    await client.connect();
    const [, role] = /role:(\w+)/.exec(await client.info("replication")) ?? [];
    const keys = role === "master" ? await client.keys(`${prefix}:*`) : [];
    for (const key of keys) await withEach(client, key);
    found.push(...keys);
    client.disconnect();
  }
  return found;
}
