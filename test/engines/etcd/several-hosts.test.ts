import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { connect } from "locktender";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Endpoint } from "#lib/backends/etcd/endpoint.js";
import { readEtcdOptions } from "#lib/backends/etcd/options.js";
import { type Etcd, startEtcd } from "./server.js";

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
    ["its name is unknown", () => "no-such-host.invalid"],
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

test("a server is silent if it has said nothing since one asked; one that is slow keeps its connection", async () => {
  const endpoint = new Endpoint({ host: "127.0.0.1", port: 1 }, readEtcdOptions({ url: "etcd://h" }));
  const beforeMs = performance.now();
  const client = await endpoint.client();
  // A request by an older connection says nothing about this one.
  expect(endpoint.renewIfSilent(beforeMs)).toBe(false);
  const askedMs = performance.now();
  endpoint.heard();
  expect(endpoint.renewIfSilent(askedMs)).toBe(false);
  expect(await endpoint.client()).toBe(client);
  expect(endpoint.renewIfSilent(performance.now())).toBe(true);
  expect(await endpoint.client()).not.toBe(client);
  endpoint.close();
});
