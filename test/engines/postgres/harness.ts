import { type PostgresOptions, postgres } from "locktender/postgres";
import type { Harness } from "locktender/testing";
import type { Database } from "../databases/shared-database.js";
import { askPostgres } from "./server.js";

let last = 0;
const tables = ["claims", "resources", "forced", "cells"];
/** The shortest that is allowed. */
const RETENTION_MS = 1_000;

/** Locks on this server, in a schema of their own. */
export function postgresHarness(server: Database, engine = "PostgreSQL"): Harness {
  const prefix = `test_${process.pid}_${++last}`;
  const options = { url: server.url, prefix } satisfies PostgresOptions;
  const counted = `${prefix}_counted`;
  const at = ({ host, port }: { host: string; port: number }) =>
    server.url.replace(/@.*\//, `@${host}:${port}/`);
  return {
    engine,
    open: () => postgres(options),
    processes: { module: new URL("./worker-backend.mjs", import.meta.url).href, args: options },
    network: {
      target: { host: server.host, port: server.port },
      open: (proxy) => postgres({ ...options, url: at(proxy) }),
    },
    wipe: async () => {
      await askPostgres(server.url, `TRUNCATE ${tables.map((table) => `"${prefix}".${table}`)}`);
    },
    leftovers: {
      open: () => postgres({ ...options, prefix: counted, retention: RETENTION_MS }),
      async count() {
        const rows = ["claims", "resources"].map((table) => `(SELECT count(*) FROM "${counted}".${table})`);
        const [row] = await askPostgres(server.url, `SELECT ${rows.join(" + ")} AS number`);
        return Number(row?.number);
      },
      retentionMs: RETENTION_MS,
      // Names are forgotten in the course of other work: of the last one that is used, the row stays.
      kept: { number: 1, why: "the row of the name that was used last" },
    },
    crowd: { waiters: 500, why: "each claim, grant and release is a transaction on a disk" },
  };
}
