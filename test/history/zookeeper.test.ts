import { randomUUID } from "node:crypto";
import { afterAll, test } from "vitest";
import { startZooKeeper } from "../servers/zookeeper.js";
import { BY_SESSIONS, expectAllPromisesKept } from "./expectations.js";

const ensemble = await startZooKeeper({ members: 3 });
afterAll(() => ensemble.stop());

test("ZooKeeper keeps every promise while processes are killed and stopped on the way", async () => {
  const backend = {
    module: new URL("../support/zookeeper-backend.mjs", import.meta.url).href,
    args: { url: ensemble.url, prefix: `history-${randomUUID()}` },
  };
  await expectAllPromisesKept(backend, BY_SESSIONS);
});
