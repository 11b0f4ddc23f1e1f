import { randomUUID } from "node:crypto";
import { test } from "vitest";
import { BY_SESSIONS, expectAllPromisesKept } from "../../history/expectations.js";
import { shared } from "../../servers/shared.js";

test.for(["zookeeper", "zookeeper-ensemble"] as const)(
  "%s keeps every promise while processes are killed and stopped on the way",
  async (name) => {
    const backend = {
      module: new URL("./worker-backend.mjs", import.meta.url).href,
      args: { url: (await shared(name)).url, prefix: `history-${randomUUID()}` },
    };
    await expectAllPromisesKept(backend, BY_SESSIONS);
  },
);
