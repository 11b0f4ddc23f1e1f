import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sqlite } from "locktender/sqlite";
import { afterAll } from "vitest";
import type { EngineTests } from "../../support/engine-tests.js";
import { betterSqlite3 } from "./better-sqlite3.js";
import { sqliteHarness } from "./harness.js";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Of its own: two libraries in one process would drop each other's file locks. */
function newFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "locktender-model-"));
  folders.push(folder);
  return join(folder, "locks.db");
}

const BetterSqlite3 = betterSqlite3();

export default {
  conformance: {
    conformance: sqliteHarness("none"),
    "conformance-better-sqlite3": { ...sqliteHarness("none"), engine: "sqlite by better-sqlite3" },
  },
  model: {
    sqlite: async () => sqlite({ file: newFile() }),
    ...(BetterSqlite3 && {
      "sqlite by better-sqlite3": async () => sqlite({ database: new BetterSqlite3(newFile()) }),
    }),
  },
} satisfies EngineTests;
