import { Redis } from "ioredis";
import { type RedlockOptions, redlock } from "locktender/redlock";
import type { Harness } from "locktender/testing";
import { bornKey } from "#lib/backends/redlock/keys.js";
import { SCRIPTS } from "#lib/backends/redlock/node.js";
import { hostsOf } from "../../support/hosts-of.js";

const MAX_TTL_MS = 60_000;
const RETENTION_MS = 100;

/** What it cannot promise, and why. */
export const quorumLacks = {
  cells: { skip: "a quorum keeps locks, and no values" },
  queue: { skip: "a quorum keeps no queue: no waiter can be seen, and there is no order among processes" },
  sticky: { skip: "a quorum keeps no queue: no holder can be told that another process waits" },
} as const satisfies Partial<Harness>;

/** Tells servers that they are new, as the option does, but whatever else the machine has to do. */
export async function declareNew(ports: readonly number[], prefix: string, maxTtlMs: number): Promise<void> {
  for (const port of ports) {
    const client = new Redis(port, { lazyConnect: true });
    await client.connect();
    await client.eval(SCRIPTS.greet.lua, 1, bornKey(prefix), maxTtlMs, "declare");
    client.disconnect();
  }
}

/** A quorum of these servers, spoken to by one of the two libraries, under keys of its own. */
export async function quorumHarness(
  library: "ioredis" | "redis",
  server: { readonly url: string },
): Promise<Harness> {
  const prefix = `test-${library}-${process.pid}`;
  const options = { library, prefix, maxTtl: MAX_TTL_MS } satisfies RedlockOptions;
  const at = (hosts: readonly { readonly host: string; readonly port: number }[]) => ({
    ...options,
    url: `redlock://${hosts.map(({ host, port }) => `${host}:${port}`).join(",")}`,
  });
  const hosts = hostsOf(server.url);
  const ports = hosts.map(({ port }) => port);
  await declareNew(ports, prefix, MAX_TTL_MS);
  const counted = `${prefix}-counted`;
  await declareNew(ports, counted, MAX_TTL_MS);
  const [target = { host: "", port: 0 }, ...others] = hosts;
  return {
    engine: `a quorum of ${hosts.length} by ${library}`,
    open: () => redlock(at(hosts)),
    processes: { module: new URL("./worker-backend.mjs", import.meta.url).href, args: at(hosts) },
    network: { target, others, open: (proxy, more) => redlock(at([proxy, ...more])) },
    wipe: async () => {
      await keysOf(ports, prefix, (client, key) => client.del(key));
      await declareNew(ports, prefix, MAX_TTL_MS);
    },
    leftovers: {
      open: () => redlock({ ...at(hosts), prefix: counted, retention: RETENTION_MS }),
      count: async () => (await keysOf(ports, counted)).length,
      retentionMs: RETENTION_MS,
      kept: { number: ports.length, why: "each server knows since when it remembers everything" },
    },
    ...quorumLacks,
  };
}

/** Only our own keys: other tests use the same servers. */
async function keysOf(
  ports: readonly number[],
  prefix: string,
  withEach: (client: Redis, key: string) => unknown = () => undefined,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const port of ports) {
    const client = new Redis(port, { lazyConnect: true });
    await client.connect();
    const keys = await client.keys(`${prefix}:*`);
    for (const key of keys) await withEach(client, key);
    found.push(...keys);
    client.disconnect();
  }
  return found;
}
