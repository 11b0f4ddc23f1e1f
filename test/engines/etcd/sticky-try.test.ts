import { createLocks } from "locktender";
import { etcd } from "locktender/etcd";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type Etcd, startEtcd } from "./server.js";

// This test fails: it shows a defect.

let server: Etcd;
beforeAll(async () => {
  server = await startEtcd();
});
afterAll(() => server.stop());

test("a lock that is only tried is not refused because of an idle claim of the same process", async () => {
  const locks = createLocks(etcd({ url: server.url, prefix: "" }), { ttl: "10m" });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  const answers: boolean[] = [];
  for (let index = 0; index < 10; index++) {
    const name = `try-${index}`;
    await locks.mutex(name, { sticky: "5m" }).run(() => {});
    const lease = await locks.mutex(name).tryAcquire({ minHold: 1 });
    answers.push(lease !== null);
    await lease?.release();
  }
  expect(answers).toEqual(Array.from({ length: 10 }, () => true));
});
