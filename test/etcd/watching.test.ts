import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { readEtcdOptions } from "#lib/backends/etcd/options.js";
import { EtcdRpc } from "#lib/backends/etcd/rpc.js";
import { Watcher } from "#lib/backends/etcd/watcher.js";
import { type Etcd, startEtcd } from "../servers/etcd.js";

let server: Etcd;
beforeAll(async () => {
  server = await startEtcd();
});
afterAll(() => server.stop());

test("what has happened before the watch stands is told at once, not in the server's own time", async () => {
  const rpc = new EtcdRpc(readEtcdOptions({ url: server.url }), () => {});
  const watcher = new Watcher(rpc);
  onTestFinished(() => {
    watcher.close();
    rpc.close();
  });
  const key = Buffer.from("watched");
  const put = () => rpc.txn({ success: [{ request_put: { key, value: Buffer.from("x"), lease: "0" } }] });
  const told = async () => {
    const { header } = await put();
    await rpc.txn({ success: [{ request_delete_range: { key } }] });
    const from = BigInt(header.revision) + 1n;
    let stop = () => {};
    await new Promise<void>((resolve) => {
      stop = watcher.watch({ key, from, deletionsOnly: true, on: () => resolve() });
    });
    stop();
  };
  await told();
  const begin = performance.now();
  for (let round = 0; round < 20; round++) await told();
  // The server looks after watches that begin in the past every 100 ms, so it would take two seconds.
  expect(performance.now() - begin).toBeLessThan(1_500);
});
