import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { readEtcdOptions } from "#lib/backends/etcd/options.js";
import { EtcdRpc } from "#lib/backends/etcd/rpc.js";
import { Watcher } from "#lib/backends/etcd/watcher.js";
import { type Etcd, startEtcd } from "./server.js";

let server: Etcd;
beforeAll(async () => {
  server = await startEtcd();
});
afterAll(() => server.stop());

const ROUNDS = 20;
const key = Buffer.from("watched");

function open() {
  const rpc = new EtcdRpc(readEtcdOptions({ url: server.url }), () => {});
  const watcher = new Watcher(rpc);
  onTestFinished(() => {
    watcher.close();
    rpc.close();
  });
  const put = (where: Buffer) =>
    rpc.txn({ success: [{ request_put: { key: where, value: Buffer.from("x"), lease: "0" } }] });
  const remove = () => rpc.txn({ success: [{ request_delete_range: { key } }] });
  const told = (created: string) => {
    let stop = () => {};
    return new Promise<void>((resolve) => {
      stop = watcher.watch({ key, created, on: () => resolve() });
    }).finally(() => stop());
  };
  return { put, remove, told };
}

// The server looks after watches that begin in its past every 100 ms, so each of these would take two seconds.
const SOON_MS = 1_500;

test("what has happened before the watch stands is told at once", async () => {
  const { put, remove, told } = open();
  const begin = performance.now();
  for (let round = 0; round < ROUNDS; round++) {
    const { header } = await put(key);
    await remove();
    await told(header.revision);
  }
  expect(performance.now() - begin).toBeLessThan(SOON_MS);
});

test("what happens just after it is told at once, also where others write", async () => {
  const { put, remove, told } = open();
  let tookMs = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const { header } = await put(key);
    await put(Buffer.from("of others"));
    const telling = told(header.revision);
    await sleep(20);
    const begin = performance.now();
    await remove();
    await telling;
    tookMs += performance.now() - begin;
  }
  expect(tookMs).toBeLessThan(SOON_MS / 2);
});

test("one of the same name that was created later is another", async () => {
  const { put, remove, told } = open();
  const { header } = await put(key);
  await remove();
  await put(key);
  await told(header.revision);
});
