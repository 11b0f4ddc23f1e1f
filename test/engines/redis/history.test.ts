import { randomUUID } from "node:crypto";
import { test } from "vitest";
import { expectAllPromisesKept } from "../../history/expectations.js";
import { shared } from "../../servers/shared.js";

test("Redis keeps every promise while processes are killed and stopped on the way", async () => {
  await expectAllPromisesKept({
    module: new URL("./worker-backend.mjs", import.meta.url).href,
    args: { url: (await shared("redis")).url, prefix: `history-${randomUUID()}` },
  });
});
