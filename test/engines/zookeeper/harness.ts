import type { Harness } from "locktender/testing";
import { type ZooKeeperOptions, zookeeper } from "locktender/zookeeper";
import { hostsOf } from "../../support/hosts-of.js";
import { TestClient } from "./test-client.js";

let last = 0;

export function zookeeperHarness(server: { readonly url: string }): Harness {
  const prefix = `test-${process.pid}-${++last}`;
  const options = { url: server.url, prefix } satisfies ZooKeeperOptions;
  const hosts = hostsOf(server.url);
  const [only] = hosts.length === 1 ? hosts : [];
  return {
    engine: `ZooKeeper, ${hosts.length} server(s)`,
    trustedShare: 2 / 3,
    open: () => zookeeper(options),
    processes: { module: new URL("./worker-backend.mjs", import.meta.url).href, args: options },
    network:
      only !== undefined
        ? {
            target: only,
            endsStaleConnections: true,
            open: ({ host, port }) => zookeeper({ ...options, url: `zookeeper://${host}:${port}` }),
          }
        : { skip: "a proxy in front of one of several servers would only be avoided" },
    // The sessions live on; every node is gone.
    wipe: async () => {
      const client = await TestClient.open(server.url);
      await client.removeAll(`/${prefix}`);
      await client.close();
    },
  };
}
