import { randomUUID } from "node:crypto";
import { inject, test } from "vitest";
import { expectAllPromisesKept } from "./expectations.js";

test("Redis keeps every promise while processes are killed and stopped on the way", async () => {
  await expectAllPromisesKept({
    module: new URL("../support/redis-backend.mjs", import.meta.url).href,
    args: { url: inject("redisSingle").url, prefix: `history-${randomUUID()}` },
  });
});
