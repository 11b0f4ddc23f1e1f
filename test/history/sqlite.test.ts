import { test } from "vitest";
import { newFile } from "../sqlite/helpers.js";
import { expectAllPromisesKept } from "./expectations.js";

test("SQLite keeps every promise while processes are killed and stopped on the way", async () => {
  await expectAllPromisesKept({
    module: new URL("../support/sqlite-backend.mjs", import.meta.url).href,
    args: { file: await newFile() },
  });
});
