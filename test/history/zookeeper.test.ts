import { randomUUID } from "node:crypto";
import { afterAll, test } from "vitest";
import { recordHistory } from "#lib/testing/history-run.js";
import { startZooKeeper } from "../servers/zookeeper.js";
import { expectAllPromisesKept } from "./expectations.js";

const ensemble = await startZooKeeper({ members: 3 });
afterAll(() => ensemble.stop());

test("ZooKeeper keeps every promise while processes are killed and stopped on the way", async () => {
  const history = await recordHistory({
    backend: {
      module: new URL("../support/zookeeper-backend.mjs", import.meta.url).href,
      args: { url: ensemble.url, prefix: `history-${randomUUID()}` },
    },
    processes: 4,
    workersPerProcess: 4,
    names: ["stock", "orders"],
    durationMs: 10_000,
    holdMs: 5,
    ttlMs: 1_000,
    faults: { killEveryMs: 2_500, stopEveryMs: 1_000 },
    seed: 7,
  });
  expectAllPromisesKept(history);
});
