import { setMaxListeners } from "node:events";
import { startTimer } from "../../core/timer.js";
import type { Cluster } from "./node-redis.js";

/**
 * A cluster client of our own. It makes a client for each node when a request first needs that node. Here they are
 * kept from keeping the process alive; and since none of them connects again by itself, one whose connection has
 * ended is forgotten, so that the next request gets a new one.
 */
export function tendCluster(cluster: Cluster, timeoutMs: number): Cluster {
  const tend = () => {
    for (const node of cluster.masters) {
      if (node.client?.isOpen === false) node.client = undefined;
      node.client?.unref();
    }
  };
  let isTendedLater = false;
  const tendLater = () => {
    isTendedLater = false;
    tend();
  };
  const tending = async <T>(ask: () => Promise<T>): Promise<T> => {
    tend();
    // A node that has fallen silent never answers: its connection must not keep the process alive, either.
    if (!isTendedLater) startTimer(tendLater, timeoutMs).unref();
    isTendedLater = true;
    try {
      return await ask();
    } finally {
      tend();
    }
  };
  return {
    get masters() {
      return cluster.masters;
    },
    evalSha: (...args) => tending(() => cluster.evalSha(...args)),
    eval: (...args) => tending(() => cluster.eval(...args)),
    sendCommand: (...args) => tending(() => cluster.sendCommand(...args)),
    nodeClient: (node) => tending(() => cluster.nodeClient(node)),
    connect: () => cluster.connect(),
    destroy: () => cluster.destroy(),
    on: (event, listener) => cluster.on(event, listener),
  };
}

/**
 * Destroys a client, also while it is connecting. The library's own `destroy` forgets the socket of a connection
 * that does not stand yet, and that socket would stay open for good (seen with 5.1 and 6.3). All sockets of the client
 * are made with the signal, which ends them.
 */
export function destroyer(): {
  readonly signal: AbortSignal;
  readonly destroy: (client: { destroy(): void }) => void;
} {
  const controller = new AbortController();
  // A client of a cluster has a socket for each node. More than ten listeners would be warned of.
  setMaxListeners(0, controller.signal);
  return {
    signal: controller.signal,
    destroy(client) {
      try {
        client.destroy();
      } catch {
        // Up to version 6.0 a client that is closed already throws.
      }
      controller.abort();
    },
  };
}
