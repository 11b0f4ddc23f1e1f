import { type EtcdOptions, etcd } from "locktender/etcd";
import type { Harness } from "locktender/testing";
import type { Etcd } from "../servers/etcd.js";

let last = 0;

export function etcdHarness(
  server: Pick<Etcd, "url"> & { readonly nodes: readonly { readonly port: number }[] },
): Harness {
  const prefix = `test-${process.pid}-${++last}`;
  const options = { url: server.url, prefix } satisfies EtcdOptions;
  const [node] = server.nodes;
  return {
    engine: `etcd, ${server.nodes.length} server(s)`,
    open: () => etcd(options),
    processes: { module: new URL("./etcd-backend.mjs", import.meta.url).href, args: options },
    network:
      server.nodes.length === 1 && node !== undefined
        ? {
            target: { host: "127.0.0.1", port: node.port },
            open: ({ host, port }) => etcd({ ...options, url: `etcd://${host}:${port}` }),
          }
        : { skip: "a proxy in front of one of several servers would only be avoided" },
    wipe: { skip: "todo" },
  };
}
