import { Redis } from "ioredis";
import { type RedlockOptions, redlock } from "locktender/redlock";
import type { Harness } from "locktender/testing";
import { hostsOf } from "./hosts-of.js";

const NO_QUEUE = "a quorum keeps no queue: nobody is seen waiting, and there is no order among processes";

/** A quorum of these servers, spoken to by one of the two libraries, under keys of its own. */
export function quorumHarness(library: "ioredis" | "redis", server: { readonly url: string }): Harness {
  const prefix = `test-${library}-${process.pid}`;
  const options = { library, prefix, maxTtl: "1m", fresh: true } satisfies RedlockOptions;
  const at = (hosts: readonly { readonly host: string; readonly port: number }[]) => ({
    ...options,
    url: `redlock://${hosts.map(({ host, port }) => `${host}:${port}`).join(",")}`,
  });
  const hosts = hostsOf(server.url);
  const [target = { host: "", port: 0 }, ...others] = hosts;
  return {
    engine: `a quorum of ${hosts.length} by ${library}`,
    open: () => redlock(at(hosts)),
    processes: { module: new URL("./quorum-backend.mjs", import.meta.url).href, args: at(hosts) },
    network: { target, others, open: (proxy, more) => redlock(at([proxy, ...more])) },
    wipe: () => forget(hosts, prefix),
    queue: { skip: NO_QUEUE },
  };
}

/** As a flush of all servers would, but only of our own keys. */
async function forget(
  hosts: readonly { readonly host: string; readonly port: number }[],
  prefix: string,
): Promise<void> {
  for (const { host, port } of hosts) {
    const client = new Redis(port, host, { lazyConnect: true });
    await client.connect();
    const keys = await client.keys(`${prefix}:*`);
    if (keys.length > 0) await client.del(...keys);
    client.disconnect();
  }
}
