import { inject, test } from "vitest";
import { expectAllPromisesKept } from "./expectations.js";

test("PostgreSQL keeps every promise while processes are killed and stopped on the way", async () => {
  await expectAllPromisesKept({
    module: new URL("../support/postgres-backend.mjs", import.meta.url).href,
    args: { url: inject("postgres").url, prefix: `history_${process.pid}` },
  });
});
