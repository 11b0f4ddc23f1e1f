import { type MysqlOptions, mysql } from "locktender/mysql";
import type { Harness } from "locktender/testing";
import type { Database } from "../databases/shared-database.js";
import { askMariadb } from "./server.js";

let last = 0;
const tables = ["claims", "resources", "forced", "cells"];
/** The shortest that is allowed. */
const RETENTION_MS = 1_000;

/** Locks on this server, in tables of their own. */
export function mysqlHarness(server: Database): Harness {
  const prefix = `test_${process.pid}_${++last}`;
  const options = { url: server.url, prefix } satisfies MysqlOptions;
  const counted = `${prefix}_counted`;
  const at = ({ host, port }: { host: string; port: number }) =>
    server.url.replace(/@.*\//, `@${host}:${port}/`);
  return {
    engine: "MariaDB",
    open: () => mysql(options),
    processes: { module: new URL("./worker-backend.mjs", import.meta.url).href, args: options },
    network: {
      target: { host: server.host, port: server.port },
      open: (proxy) => mysql({ ...options, url: at(proxy) }),
    },
    wipe: async () => {
      await askMariadb(server.url, tables.map((table) => `DELETE FROM ${prefix}_${table}`).join("; "));
    },
    leftovers: {
      open: () => mysql({ ...options, prefix: counted, retention: RETENTION_MS }),
      async count() {
        const rows = ["claims", "resources"].map((table) => `(SELECT count(*) FROM ${counted}_${table})`);
        const [row] = await askMariadb(server.url, `SELECT ${rows.join(" + ")} AS number`);
        return Number(row?.number);
      },
      retentionMs: RETENTION_MS,
      // Names are forgotten in the course of other work: of the last one that is used, the row stays.
      kept: { number: 1, why: "the row of the name that was used last" },
    },
    crowd: {
      waiters: 150,
      why: "waiters learn of a grant by polling, and each step is a transaction on a disk",
    },
    sticky: { skip: "waiters poll: a holder is not told that another process waits" },
  };
}
