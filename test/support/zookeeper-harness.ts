import type { Harness } from "locktender/testing";
import { type ZooKeeperOptions, zookeeper } from "locktender/zookeeper";
import type { ZooKeeper } from "../servers/zookeeper.js";
import { TestClient } from "./zookeeper-client.js";

let last = 0;

export function zookeeperHarness(server: Pick<ZooKeeper, "url" | "nodes">): Harness {
  const prefix = `test-${process.pid}-${++last}`;
  const options = { url: server.url, prefix } satisfies ZooKeeperOptions;
  const [node] = server.nodes;
  return {
    engine: `ZooKeeper, ${server.nodes.length} server(s)`,
    trustedShare: 2 / 3,
    open: () => zookeeper(options),
    processes: { module: new URL("./zookeeper-backend.mjs", import.meta.url).href, args: options },
    network:
      server.nodes.length === 1 && node !== undefined
        ? {
            target: { host: node.host, port: node.port },
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
