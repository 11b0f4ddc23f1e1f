import { postgres } from "locktender/postgres";
import { database } from "../engines/databases/shared-database.js";
import { postgresHarness } from "../engines/postgres/harness.js";
import { clientLibrary } from "../support/client-library.js";
import { byUrl, clientPromises, prefixOf } from "./promises.js";

const { default: pg } = await clientLibrary<typeof import("pg")>("pg");
const server = await database("postgres");
const harness = postgresHarness(server, "pg");

clientPromises(harness, {
  "by URL": byUrl(harness),
  "by a pool of the caller's": ({ host, port }) => {
    const pool = new pg.Pool({ host, port, user: "postgres", database: "postgres", max: 4 });
    pool.on("error", () => {}); // idle connections that were cut
    return {
      backend: postgres({ pool, prefix: prefixOf(harness) }),
      stillWorks: () => pool.query("SELECT 1"),
      end: () => pool.end(),
    };
  },
});
