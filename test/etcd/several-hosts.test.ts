import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { connect } from "locktender";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Etcd, startEtcd } from "../servers/etcd.js";

// Takes connections, and never says a word.
const silent = createServer((socket) => void socket.on("error", () => {}));
let server: Etcd;
beforeAll(async () => {
  server = await startEtcd();
  await once(silent.listen(0, "127.0.0.1"), "listening");
});
afterAll(async () => {
  silent.close();
  await server.stop();
});

describe("of two servers the first is dead: the other one is asked, by the very first call", () => {
  test.each([
    ["nobody knows its name", () => "no-such-host.invalid"],
    ["it refuses connections", () => "127.0.0.1:1"],
    ["it is silent", () => `127.0.0.1:${(silent.address() as AddressInfo).port}`],
  ])("%s", async (_, dead) => {
    const [node] = server.nodes;
    const locks = await connect(`etcd://${dead()},127.0.0.1:${node?.port}`);
    const lease = await locks.mutex("x").tryAcquire();
    expect(lease?.held).toBe(true);
    await locks.close();
  });
});
