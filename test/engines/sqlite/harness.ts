import { sqlite } from "locktender/sqlite";
import type { Harness } from "locktender/testing";
import { openDatabase } from "./default-library.js";

/** Locks in that file. */
export function sqliteHarness(file: string): Harness {
  const options = { file };
  return {
    engine: "sqlite",
    open: () => sqlite(options),
    processes: { module: new URL("./worker-backend.mjs", import.meta.url).href, args: options },
    network: { skip: "a file is not reached over a network" },
    async wipe() {
      const database = openDatabase(file);
      database.exec("PRAGMA busy_timeout = 1000; DELETE FROM claims; DELETE FROM resources");
      database.close();
    },
  };
}
