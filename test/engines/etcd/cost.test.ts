import { createLocks, type Locks } from "locktender";
import { etcd } from "locktender/etcd";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Etcd, startEtcd } from "./server.js";

let server: Etcd;
beforeAll(async () => {
  server = await startEtcd();
});
afterAll(() => server.stop());

function open(): Locks {
  // So long a ttl that no heartbeat comes in between.
  const locks = createLocks(etcd({ url: server.url }), { ttl: "10m", wait: "2m" });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

/** The messages that the server has received so far, by method. */
async function received(): Promise<Map<string, number>> {
  const metrics = await (await fetch(`http://127.0.0.1:${server.nodes[0]?.port}/metrics`)).text();
  const lines = metrics.matchAll(/^grpc_server_msg_received_total\{.*grpc_method="(\w+)".*\} (\S+)$/gm);
  return new Map(Array.from(lines, ([, method = "", count]) => [method, Number(count)]));
}

async function during(work: () => Promise<unknown>): Promise<Record<string, number>> {
  const before = await received();
  await work();
  const after = await received();
  const grown = [...after].map(([method, count]) => [method, count - (before.get(method) ?? 0)] as const);
  return Object.fromEntries(grown.filter(([, count]) => count > 0));
}

describe("what is asked of the servers", () => {
  test("an uncontended cycle is two requests, and so is one that is only tried", async () => {
    const mutex = open().mutex("free");
    await mutex.run(() => undefined);
    expect(await during(() => mutex.run(() => undefined))).toEqual({ Txn: 2 });
    expect(await during(() => mutex.tryRun(() => undefined))).toEqual({ Txn: 2 });
  });

  test("a try that is refused is one request", async () => {
    const [holder, other] = [open(), open()];
    await holder.mutex("taken").acquire();
    await other.mutex("warm").run(() => undefined);
    expect(await during(() => other.mutex("taken").tryAcquire())).toEqual({ Txn: 1 });
  });

  test("scenario S7: a grant costs the same however many wait, and wakes one", async () => {
    const costs: number[] = [];
    for (const waiters of [20, 400]) {
      const locks = open();
      const mutex = locks.mutex(["queue", String(waiters)], { fair: true });
      const holder = await mutex.acquire();
      const grants = 20;
      let granted = 0;
      const closing = new AbortController();
      let resolve = () => {};
      const promise = new Promise<void>((done) => {
        resolve = done;
      });
      const waits = Array.from({ length: waiters }, () =>
        mutex
          .run({ signal: closing.signal }, () => {
            if (++granted === grants) resolve();
            // The last of those that count keeps it until the counting is over.
            return granted < grants
              ? undefined
              : new Promise((end) => closing.signal.addEventListener("abort", end));
          })
          .catch(() => undefined),
      );
      const seen = async () => (await locks.inspect(mutex.name)).waiters.length;
      await expect.poll(seen, { timeout: 30_000, interval: 100 }).toBe(waiters);
      const asked = await during(async () => {
        await holder.release();
        await promise;
      });
      costs.push(Object.values(asked).reduce((sum, count) => sum + count, 0) / grants);
      closing.abort(new Error("counted"));
      await Promise.all(waits);
    }
    const [few = 0, many = 0] = costs;
    // A release, a look, a word for the curious, and a watch that ends and begins; some chance on top.
    expect(few).toBeLessThanOrEqual(6);
    expect(many).toBeLessThanOrEqual(few + 0.5);
  });
});
