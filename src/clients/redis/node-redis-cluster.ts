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
    off: (event, listener) => cluster.off(event, listener),
  };
}
