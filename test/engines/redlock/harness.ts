import { Redis } from "ioredis";
import { type RedlockOptions, redlock } from "locktender/redlock";
import type { Harness } from "locktender/testing";
import { bornKey, LUA } from "#lib/backends/redlock/keys.js";
import { hostsOf } from "../../support/hosts-of.js";

const MAX_TTL_MS = 60_000;

/** What it cannot promise, and why. */
export const quorumLacks = {
  cells: { skip: "a quorum keeps locks, and no values" },
  queue: { skip: "a quorum keeps no queue: no waiter is seen, and there is no order among processes" },
} as const satisfies Partial<Harness>;

/** Tells servers that they are new, as the option does, but whatever else the machine has to do. */
export async function declareNew(ports: readonly number[], prefix: string, maxTtlMs: number): Promise<void> {
  for (const port of ports) {
    const client = new Redis(port, { lazyConnect: true });
    await client.connect();
    await client.eval(LUA.greet, 1, bornKey(prefix), maxTtlMs, "declare");
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
  const [target = { host: "", port: 0 }, ...others] = hosts;
  return {
    engine: `a quorum of ${hosts.length} by ${library}`,
    open: () => redlock(at(hosts)),
    processes: { module: new URL("./worker-backend.mjs", import.meta.url).href, args: at(hosts) },
    network: { target, others, open: (proxy, more) => redlock(at([proxy, ...more])) },
    wipe: async () => {
      await forget(ports, prefix);
      await declareNew(ports, prefix, MAX_TTL_MS);
    },
    ...quorumLacks,
  };
}

/** As a flush of all servers would, but only of our own keys. */
async function forget(ports: readonly number[], prefix: string): Promise<void> {
  for (const port of ports) {
    const client = new Redis(port, { lazyConnect: true });
    await client.connect();
    const keys = await client.keys(`${prefix}:*`);
    if (keys.length > 0) await client.del(...keys);
    client.disconnect();
  }
}
