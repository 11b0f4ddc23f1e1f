import { memory } from "locktender/memory";
import { conformance } from "locktender/testing";
import { runner } from "../support/runner.js";

const store = `conformance-${process.pid}`;

conformance(runner, {
  engine: "memory",
  open: () => memory(store),
  processes: { skip: "memory is shared within one process only" },
  network: { skip: "memory needs no network" },
  wipe: { skip: "memory is gone only with its process" },
});
