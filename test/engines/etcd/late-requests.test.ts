import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type Locks } from "locktender";
import { etcd } from "locktender/etcd";
import { type FaultProxy, startFaultProxy } from "locktender/testing";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Etcd, startEtcd } from "./server.js";

let server: Etcd;
let proxy: FaultProxy;
beforeAll(async () => {
  server = await startEtcd();
  const { host, port } = server.nodes[0] as Etcd["nodes"][number];
  proxy = await startFaultProxy({ target: { host, port } });
});
afterAll(async () => {
  await proxy.close();
  await server.stop();
});

function open(url: string): Locks {
  const locks = createLocks(etcd({ url, timeout: "1s" }), { ttl: "3s" });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

/** A client whose requests can be held back, with a session that goes on; and another one. */
async function two(): Promise<[slow: Locks, other: Locks]> {
  const slow = open(`etcd://${proxy.host}:${proxy.port}`);
  await slow.mutex("another").tryAcquire();
  return [slow, open(server.url)];
}

/** The request that names this key for the nth time. */
function nth(count: number, name: string): (data: Buffer) => boolean {
  let seen = 0;
  return (data) => data.includes(`${name}/`) && ++seen === count;
}

describe("a request is delivered when it was asked again long ago", () => {
  test("a claim: what was granted, and taken away since, does not come back", async () => {
    const [slow, other] = await two();
    const held = proxy.holdBack(nth(1, "claimed"));
    const lease = await slow.mutex("claimed").acquire();
    await other.forceRelease("claimed", { reason: "test" });
    await expect.poll(() => lease.held).toBe(false);
    await held.deliver();
    await sleep(200);
    expect(await other.mutex("claimed").tryAcquire()).not.toBeNull();
  });

  test("the lease of its own that a fixed length got at first does not shorten it: no other caller is let in", async () => {
    const [slow, other] = await two();
    const held = proxy.holdBack(nth(2, "fixed"));
    const lease = await slow.mutex("fixed").acquire({ renew: false, ttl: "3s", wait: "20s" });
    await held.deliver();
    const next = await other.mutex("fixed").acquire({ wait: "20s" });
    expect(lease.held).toBe(false);
    expect(next.token).toBeGreaterThan(lease.token);
  });
});
