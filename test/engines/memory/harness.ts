import { memory } from "locktender/memory";
import type { Harness } from "locktender/testing";
import { stores } from "#lib/backends/memory/index.js";

/** Locks in this process, under a name of their own. */
export function memoryHarness(): Harness {
  const store = `conformance-${process.pid}`;
  return {
    engine: "memory",
    open: () => memory(store),
    processes: { skip: "memory is shared within one process only" },
    network: { skip: "memory needs no network" },
    wipe: { skip: "memory is gone only with its process" },
    // Idle names are not kept at all. The store itself is counted: a look by the engine forgets what has expired.
    leftovers: {
      open: () => memory(`${store}-counted`),
      async count() {
        const { queues, watchers, forced } = stores.get(`${store}-counted`) ?? {};
        return (queues?.size ?? 0) + (watchers?.size ?? 0) + (forced?.size ?? 0);
      },
    },
  };
}
