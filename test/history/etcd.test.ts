import { inject, test } from "vitest";
import { recordHistory } from "#lib/testing/history-run.js";
import { expectAllPromisesKept } from "./expectations.js";

test("etcd keeps every promise while processes are killed and stopped on the way", async () => {
  const history = await recordHistory({
    backend: {
      module: new URL("../support/etcd-backend.mjs", import.meta.url).href,
      args: { url: inject("etcdEnsemble").url, prefix: `history-${process.pid}` },
    },
    processes: 4,
    workersPerProcess: 4,
    names: ["stock", "orders"],
    durationMs: 12_000,
    holdMs: 30,
    ttlMs: 1_000,
    faults: { killEveryMs: 2_500, stopEveryMs: 500 },
    seed: 7,
  });
  expectAllPromisesKept(history);
});
