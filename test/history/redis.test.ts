import { randomUUID } from "node:crypto";
import { test } from "vitest";
import { shared } from "../servers/shared.js";
import { expectAllPromisesKept } from "./expectations.js";

test("Redis keeps every promise while processes are killed and stopped on the way", async () => {
  await expectAllPromisesKept({
    module: new URL("../support/redis-backend.mjs", import.meta.url).href,
    args: { url: (await shared("redis")).url, prefix: `history-${randomUUID()}` },
  });
});
