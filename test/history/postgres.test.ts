import { test } from "vitest";
import { database } from "../support/database.js";
import { expectAllPromisesKept } from "./expectations.js";

test("PostgreSQL keeps every promise while processes are killed and stopped on the way", async () => {
  await expectAllPromisesKept({
    module: new URL("../support/postgres-backend.mjs", import.meta.url).href,
    args: { url: (await database("postgres")).url, prefix: `history_${process.pid}` },
  });
});
