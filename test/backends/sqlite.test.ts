import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "libsql";
import { sqlite } from "locktender/sqlite";
import { conformance } from "locktender/testing";
import { afterAll } from "vitest";
import { runner } from "../support/runner.js";

const folder = mkdtempSync(join(tmpdir(), "locktender-sqlite-"));
const options = { file: join(folder, "locks.db") };
afterAll(() => rmSync(folder, { recursive: true, force: true }));

conformance(runner, {
  engine: "sqlite",
  open: () => sqlite(options),
  processes: { module: new URL("../support/sqlite-backend.mjs", import.meta.url).href, args: options },
  network: { skip: "a file is not reached over a network" },
  async wipe() {
    const database = new Database(options.file, { timeout: 1_000 });
    database.exec("DELETE FROM claims; DELETE FROM resources");
    database.close();
  },
});
