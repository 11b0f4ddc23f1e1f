import type { Harness } from "locktender/testing";
import { type ZooKeeperOptions, zookeeper } from "locktender/zookeeper";
import { hostsOf } from "../../support/hosts-of.js";
import { TestClient } from "./test-client.js";

let last = 0;

export function zookeeperHarness(server: { readonly url: string }): Harness {
  const prefix = `test-${process.pid}-${++last}`;
  const options = { url: server.url, prefix } satisfies ZooKeeperOptions;
  const counted = `${prefix}-counted`;
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
    // A session is pinged for as long as its connection stands, and keeps its claims.
    keepsAlive: true,
    // The sessions live on; every node is gone. Transaction ids, and so the tokens, start again only with a new or
    // restored ensemble, which is another one for its clients: `traits.caveats` says so.
    wipe: async () => {
      const client = await TestClient.open(server.url);
      await client.removeAll(`/${prefix}`);
      await client.close();
    },
    // The nodes of claims and of sessions. Names are containers: the server removes them when they are empty, by
    // default once a minute.
    leftovers: {
      open: () => zookeeper({ ...options, prefix: counted }),
      async count() {
        const client = await TestClient.open(server.url);
        const nodes = await client.children(`/${counted}`);
        const names = nodes.filter((node) => !node.startsWith("%"));
        const claims = await Promise.all(names.map((name) => client.children(`/${counted}/${name}`)));
        await client.close();
        return nodes.length - names.length + claims.flat().length;
      },
    },
    crowd: { waiters: 300, why: "each grant is several requests, of which each is a write to the disks" },
  };
}
