import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { conformance } from "locktender/testing";
import { afterAll } from "vitest";
import { runner } from "../../support/runner.js";
import { sqliteHarness } from "./harness.js";

const folder = mkdtempSync(join(tmpdir(), "locktender-sqlite-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

conformance(runner, sqliteHarness(join(folder, "locks.db")));
