import { test } from "vitest";
import { expectAllPromisesKept } from "../../history/expectations.js";
import { database } from "../databases/shared-database.js";

test("PostgreSQL keeps every promise while processes are killed and stopped on the way", async () => {
  await expectAllPromisesKept({
    module: new URL("./worker-backend.mjs", import.meta.url).href,
    args: { url: (await database("postgres")).url, prefix: `history_${process.pid}` },
  });
});
