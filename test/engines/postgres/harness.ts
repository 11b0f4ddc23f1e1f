import { type PostgresOptions, postgres } from "locktender/postgres";
import type { Harness } from "locktender/testing";
import type { Database } from "../databases/shared-database.js";
import { askPostgres } from "./server.js";

let last = 0;

/** Locks on this server, in a schema of their own. */
export function postgresHarness(server: Database, engine = "PostgreSQL"): Harness {
  const prefix = `test_${process.pid}_${++last}`;
  const options = { url: server.url, prefix } satisfies PostgresOptions;
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
      await askPostgres(server.url, `TRUNCATE "${prefix}".claims, "${prefix}".resources`);
    },
  };
}
