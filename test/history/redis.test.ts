import { randomUUID } from "node:crypto";
import { inject, test } from "vitest";
import { recordHistory } from "#lib/testing/history-run.js";
import { expectAllPromisesKept } from "./expectations.js";

test("Redis keeps every promise while processes are killed and stopped on the way", async () => {
  const history = await recordHistory({
    backend: {
      module: new URL("../support/redis-backend.mjs", import.meta.url).href,
      args: { url: inject("redisSingle").url, prefix: `history-${randomUUID()}` },
    },
    processes: 4,
    workersPerProcess: 4,
    names: ["stock", "orders"],
    durationMs: 5_000,
    holdMs: 5,
    ttlMs: 150,
    faults: { killEveryMs: 700, stopEveryMs: 200 },
    seed: 7,
  });
  expectAllPromisesKept(history);
});
