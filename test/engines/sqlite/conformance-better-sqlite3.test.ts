import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sqlite } from "locktender/sqlite";
import { conformance } from "locktender/testing";
import { afterAll } from "vitest";
import { notHere, runner } from "../../support/runner.js";
import { betterSqlite3, NOT_INSTALLED } from "./better-sqlite3.js";
import { sqliteHarness } from "./harness.js";

const Database = betterSqlite3();
const ENGINE = "sqlite by better-sqlite3";

if (Database === undefined) {
  notHere(`conformance: ${ENGINE}`, NOT_INSTALLED);
  console.info(NOT_INSTALLED);
} else {
  const folder = mkdtempSync(join(tmpdir(), "locktender-better-sqlite3-"));
  const file = join(folder, "locks.db");
  const opened: InstanceType<typeof Database>[] = [];
  const open = () => {
    const database = new Database(file);
    opened.push(database);
    return database;
  };
  afterAll(() => {
    for (const database of opened) database.close();
    rmSync(folder, { recursive: true, force: true });
  });
  conformance(runner, {
    ...sqliteHarness(file),
    engine: ENGINE,
    open: () => sqlite({ database: open() }),
    processes: {
      module: new URL("./worker-backend.mjs", import.meta.url).href,
      args: { brought: "better-sqlite3", file },
    },
    async wipe() {
      open().exec("DELETE FROM claims; DELETE FROM resources");
    },
  });
}
