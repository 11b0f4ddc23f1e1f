import { type MysqlOptions, mysql } from "locktender/mysql";
import type { Harness } from "locktender/testing";
import type { Database } from "../databases/shared-database.js";
import { askMariadb } from "./server.js";

let last = 0;

/** Locks on this server, in tables of their own. */
export function mysqlHarness(server: Database): Harness {
  const prefix = `test_${process.pid}_${++last}`;
  const options = { url: server.url, prefix } satisfies MysqlOptions;
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
      await askMariadb(server.url, `DELETE FROM ${prefix}_claims; DELETE FROM ${prefix}_resources`);
    },
  };
}
