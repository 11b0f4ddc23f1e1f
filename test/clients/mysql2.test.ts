import { mysql } from "locktender/mysql";
import { database } from "../engines/databases/shared-database.js";
import { mysqlHarness } from "../engines/mysql/harness.js";
import { clientLibrary } from "../support/client-library.js";
import { byUrl, clientPromises, prefixOf } from "./promises.js";

const { createPool } = await clientLibrary<typeof import("mysql2/promise")>("mysql2/promise");
const server = await database("mariadb");
const harness = mysqlHarness(server);

clientPromises(harness, {
  "by URL": byUrl(harness),
  "by a pool of the caller's": ({ host, port }) => {
    const { username: user, pathname } = new URL(server.url);
    const pool = createPool({ host, port, user, database: pathname.slice(1), connectionLimit: 4 });
    return {
      backend: mysql({ pool, prefix: prefixOf(harness) }),
      stillWorks: () => pool.query("SELECT 1"),
      end: () => pool.end(),
    };
  },
});
