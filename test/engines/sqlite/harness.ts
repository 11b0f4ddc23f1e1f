import { sqlite } from "locktender/sqlite";
import type { Harness } from "locktender/testing";
import { openDatabase } from "./default-library.js";

/** Locks in that file. */
export function sqliteHarness(file: string): Harness {
  const options = { file };
  const counted = `${file}-counted`;
  return {
    engine: "sqlite",
    open: () => sqlite(options),
    processes: { module: new URL("./worker-backend.mjs", import.meta.url).href, args: options },
    network: { skip: "a file is not reached over a network" },
    async wipe() {
      const database = openDatabase(file);
      database.exec("PRAGMA busy_timeout = 1000; DELETE FROM claims; DELETE FROM resources");
      database.exec("DELETE FROM forced; DELETE FROM cells");
      database.close();
    },
    crowd: { waiters: 500, why: "each of them polls, and each step is a transaction on the file" },
    sticky: { skip: "the processes poll: a holder is not told that another one waits" },
    leftovers: {
      open: () => sqlite({ file: counted, retention: 1 }),
      async count() {
        const database = openDatabase(counted);
        const sql = "SELECT (SELECT count(*) FROM claims) + (SELECT count(*) FROM resources) AS number";
        const row = database.prepare(sql).get() as { readonly number: number };
        database.close();
        return Number(row.number);
      },
      // Names are forgotten in the course of other work: of the last one that is used, the row stays.
      kept: { number: 1, why: "the row of the name that was used last" },
    },
  };
}
