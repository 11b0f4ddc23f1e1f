import { randomUUID } from "node:crypto";
import { inject, test } from "vitest";
import { BY_SESSIONS, expectAllPromisesKept } from "./expectations.js";

test("etcd keeps every promise while processes are killed and stopped on the way", async () => {
  const backend = {
    module: new URL("../support/etcd-backend.mjs", import.meta.url).href,
    args: { url: inject("etcdEnsemble").url, prefix: `history-${randomUUID()}` },
  };
  await expectAllPromisesKept(backend, BY_SESSIONS);
});
