import { test } from "vitest";
import { expectAllPromisesKept } from "../../history/expectations.js";
import { nodeSqlite } from "./default-library.js";
import { newFile } from "./tools.js";

test("SQLite keeps every promise while processes are killed and stopped on the way", async () => {
  await expectAllPromisesKept({
    module: new URL("./worker-backend.mjs", import.meta.url).href,
    args: { file: await newFile() },
  });
});

/** As different versions of Node.js do. An older build knows no libraries to choose from. */
const mayDiffer = nodeSqlite() !== undefined && process.env.LOCKTENDER_OTHER_DIST === undefined;

test.runIf(mayDiffer)("so it does with processes that open the file by different libraries", async () => {
  await expectAllPromisesKept({
    module: new URL("./worker-backend.mjs", import.meta.url).href,
    args: { file: await newFile(), libraries: ["node:sqlite", "libsql"] },
  });
});
