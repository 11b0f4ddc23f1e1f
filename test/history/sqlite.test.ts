import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished, test } from "vitest";
import { recordHistory } from "#lib/testing/history-run.js";
import { expectAllPromisesKept } from "./expectations.js";

test("SQLite keeps every promise while processes are killed and stopped on the way", async () => {
  const folder = await mkdtemp(join(tmpdir(), "locktender-test-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const history = await recordHistory({
    backend: {
      module: new URL("../support/sqlite-backend.mjs", import.meta.url).href,
      args: { file: join(folder, "locks.db") },
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
