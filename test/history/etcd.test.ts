import { randomUUID } from "node:crypto";
import { test } from "vitest";
import { shared } from "../servers/shared.js";
import { BY_SESSIONS, expectAllPromisesKept } from "./expectations.js";

test.for(["etcd", "etcd-ensemble"] as const)(
  "%s keeps every promise while processes are killed and stopped on the way",
  async (name) => {
    const backend = {
      module: new URL("../support/etcd-backend.mjs", import.meta.url).href,
      args: { url: (await shared(name)).url, prefix: `history-${randomUUID()}` },
    };
    await expectAllPromisesKept(backend, BY_SESSIONS);
  },
);
