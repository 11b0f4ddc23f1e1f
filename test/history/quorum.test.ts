import { randomUUID } from "node:crypto";
import { afterAll, test } from "vitest";
import { startRedisServers } from "../servers/redis.js";
import { expectAllPromisesKept, QUICK } from "./expectations.js";

const servers = await startRedisServers(5);
afterAll(() => servers.stop());

test("a quorum keeps every promise while processes are killed and stopped on the way", async () => {
  const url = `redlock://${servers.ports.map((port) => `127.0.0.1:${port}`).join(",")}`;
  const backend = {
    module: new URL("../support/quorum-backend.mjs", import.meta.url).href,
    args: { url, prefix: `history-${randomUUID()}`, fresh: true },
  };
  await expectAllPromisesKept(backend, QUICK, { queueing: false });
});
