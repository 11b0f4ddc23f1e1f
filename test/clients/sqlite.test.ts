import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type SqliteLibrary, type SqliteOptions, sqlite } from "locktender/sqlite";
import { afterAll } from "vitest";
import { betterSqlite3, NOT_INSTALLED } from "../engines/sqlite/better-sqlite3.js";
import { NO_NODE_SQLITE, nodeSqlite } from "../engines/sqlite/default-library.js";
import { sqliteHarness } from "../engines/sqlite/harness.js";
import { clientLibrary } from "../support/client-library.js";
import { notHere } from "../support/runner.js";
import { clientPromises } from "./promises.js";

const folder = mkdtempSync(join(tmpdir(), "locktender-clients-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Database = NonNullable<SqliteOptions["database"]> & { exec(sql: string): unknown; close(): unknown };
type Library = new (file: string) => Database;

const libsql = await clientLibrary<{ default: Library }>("libsql").catch(() => undefined);
const LIBRARIES: Readonly<Record<string, Library | undefined>> = {
  "node:sqlite": nodeSqlite(),
  libsql: libsql?.default,
  "better-sqlite3": betterSqlite3() as Library | undefined,
};

for (const [engine, Library] of Object.entries(LIBRARIES)) {
  if (Library === undefined) notHere(engine, engine === "node:sqlite" ? NO_NODE_SQLITE : NOT_INSTALLED);
  else promisesBy(engine, Library);
}

function promisesBy(engine: string, Library: Library): void {
  const file = join(folder, `${engine}.db`);
  const bring = () => {
    const database = new Library(file);
    return {
      backend: sqlite({ database }),
      stillWorks: async () => database.prepare("SELECT 1").get(),
      end: () => database.close(),
    };
  };
  // By the same library: two of them in one process undo each other's locks on a file.
  const wipe = async () => {
    const database = new Library(file);
    database.exec("DELETE FROM claims; DELETE FROM resources");
    database.close();
  };
  const harness = { ...sqliteHarness(file), engine, open: () => bring().backend, wipe };
  clientPromises(harness, {
    "by file": () => ({ backend: sqlite({ file, library: engine as SqliteLibrary }) }),
    "by a database of the caller's": bring,
  });
}
