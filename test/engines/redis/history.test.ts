import { randomUUID } from "node:crypto";
import { test } from "vitest";
import { expectAllPromisesKept, QUICK } from "../../history/expectations.js";
import { shared } from "../../servers/shared.js";

test("Redis keeps every promise while processes are killed and stopped on the way", async () => {
  await expectAllPromisesKept({
    module: new URL("./worker-backend.mjs", import.meta.url).href,
    args: { url: (await shared("redis")).url, prefix: `history-${randomUUID()}` },
  });
});

test("Redis keeps every promise to many tasks per process, whose claims and releases go in batches", async () => {
  await expectAllPromisesKept(
    {
      module: new URL("./worker-backend.mjs", import.meta.url).href,
      args: { url: (await shared("redis")).url, prefix: `history-${randomUUID()}` },
    },
    // Held for no time, so that tasks go on in the turn of an answer to others.
    { ...QUICK, holdMs: 0 },
    { workersPerProcess: 24, names: Array.from({ length: 8 }, (_, index) => `name-${index}`) },
  );
});
