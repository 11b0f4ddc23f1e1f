import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { type EtcdOptions, etcd } from "locktender/etcd";
import type { Harness } from "locktender/testing";

const run = promisify(execFile);
let last = 0;

/** Locks on these servers, under keys of their own. */
export function etcdHarness(server: {
  readonly url: string;
  readonly nodes: readonly { readonly host: string; readonly port: number }[];
}): Harness {
  const prefix = `test-${process.pid}-${++last}`;
  const options = { url: server.url, prefix } satisfies EtcdOptions;
  const [node] = server.nodes;
  return {
    engine: server.nodes.length === 1 ? "etcd" : `etcd with ${server.nodes.length} servers`,
    open: () => etcd(options),
    processes: { module: new URL("./etcd-backend.mjs", import.meta.url).href, args: options },
    network:
      server.nodes.length === 1 && node !== undefined
        ? {
            target: { host: node.host, port: node.port },
            open: ({ host, port }) => etcd({ ...options, url: `etcd://${host}:${port}` }),
          }
        : {
            skip: "of several servers the one behind a proxy would be avoided; see test/etcd/faults.test.ts",
          },
    wipe: async () => {
      await etcdctl(server.nodes, "del", "--prefix", `${prefix}/`);
    },
  };
}

export async function etcdctl(
  nodes: readonly { readonly host: string; readonly port: number }[],
  ...args: string[]
): Promise<string> {
  const endpoints = nodes.map(({ host, port }) => `${host}:${port}`).join(",");
  const { stdout } = await run("etcdctl", ["--endpoints", endpoints, ...args], {
    env: { ...process.env, ETCDCTL_API: "3" },
  });
  return stdout;
}
