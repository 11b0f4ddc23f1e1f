import Database from "libsql";
import { sqlite } from "locktender/sqlite";
import type { Harness } from "locktender/testing";

/** Locks in that file. */
export function sqliteHarness(file: string): Harness {
  const options = { file };
  return {
    engine: "sqlite",
    open: () => sqlite(options),
    processes: { module: new URL("./sqlite-backend.mjs", import.meta.url).href, args: options },
    network: { skip: "a file is not reached over a network" },
    async wipe() {
      const database = new Database(file, { timeout: 1_000 });
      database.exec("DELETE FROM claims; DELETE FROM resources");
      database.close();
    },
  };
}
