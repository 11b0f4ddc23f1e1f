import { test } from "vitest";
import { database } from "../support/database.js";
import { expectAllPromisesKept } from "./expectations.js";

test("MariaDB keeps every promise while processes are killed and stopped on the way", async () => {
  await expectAllPromisesKept({
    module: new URL("../support/mysql-backend.mjs", import.meta.url).href,
    args: { url: (await database("mariadb")).url, prefix: `history_${process.pid}` },
  });
});
