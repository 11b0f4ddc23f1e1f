import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { type EtcdOptions, etcd } from "locktender/etcd";
import type { Harness } from "locktender/testing";
import { hostsOf } from "../../support/hosts-of.js";

const run = promisify(execFile);
let last = 0;

/** Locks on these servers, under keys of their own. */
export function etcdHarness(server: { readonly url: string }): Harness {
  const prefix = `test-${process.pid}-${++last}`;
  const options = { url: server.url, prefix } satisfies EtcdOptions;
  const hosts = hostsOf(server.url);
  const [only] = hosts.length === 1 ? hosts : [];
  return {
    engine: `etcd, ${hosts.length} server(s)`,
    open: () => etcd(options),
    processes: { module: new URL("./worker-backend.mjs", import.meta.url).href, args: options },
    network:
      only !== undefined
        ? {
            target: only,
            open: ({ host, port }) => etcd({ ...options, url: `etcd://${host}:${port}` }),
          }
        : {
            skip: "of several servers the one behind a proxy would be avoided; see test/engines/etcd/faults.test.ts",
          },
    // All that is lost while the cluster goes on. Its revisions, and so the tokens, start again only with a new or
    // restored cluster, which is another one for its clients: `traits.caveats` says so.
    wipe: async () => {
      await etcdctl(hosts, "del", "--prefix", `${prefix}/`);
    },
    // A session that is not used any more is ended with its connection, and another by its ttl; nothing else is kept.
    leftovers: {
      open: () => etcd({ ...options, prefix: `${prefix}-counted` }),
      async count() {
        const keys = await etcdctl(hosts, "get", "--prefix", "--keys-only", `${prefix}-counted/`);
        return keys.split("\n").filter((line) => line !== "").length;
      },
    },
    crowd: { waiters: 200, why: "each grant is three requests, of which each is a write to the disks" },
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
