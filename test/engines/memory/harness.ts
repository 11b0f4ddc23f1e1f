import { memory } from "locktender/memory";
import type { Harness } from "locktender/testing";

/** Locks in this process, under a name of their own. */
export function memoryHarness(): Harness {
  const store = `conformance-${process.pid}`;
  return {
    engine: "memory",
    open: () => memory(store),
    processes: { skip: "memory is shared within one process only" },
    network: { skip: "memory needs no network" },
    wipe: { skip: "memory is gone only with its process" },
  };
}
