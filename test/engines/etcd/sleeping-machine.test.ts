import { createLocks, type Locks } from "locktender";
import { etcd } from "locktender/etcd";
import { type FaultProxy, startFaultProxy } from "locktender/testing";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { letMachineSleep, machineSleeps } from "../../support/sleeping-machine.js";
import { type Etcd, startEtcd } from "./server.js";

const TTL_MS = 30_000;
letMachineSleep();

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

/** With a session that was opened just now. */
async function open(): Promise<Locks> {
  const locks = createLocks(etcd({ url: `etcd://${proxy.host}:${proxy.port}`, timeout: "10s" }), {
    ttl: TTL_MS,
  });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  await locks.mutex("warm").run(() => undefined);
  return locks;
}

async function sleepInMidRequest(ms: number, isIt: (data: Buffer) => boolean): Promise<void> {
  const held = proxy.holdBack(isIt);
  await held.caught;
  await machineSleeps(ms);
  await held.deliver();
}

describe("a machine that slept", () => {
  test("a session is trusted for what the servers still keep of it, also for new claims", async () => {
    const locks = await open();
    const before = await locks.mutex("before").acquire();
    // So short that the client sees no reason to refresh it.
    await machineSleeps(8_000);
    const after = await locks.mutex("after").tryAcquire();
    expect(before.remainingMs()).toBeLessThanOrEqual(TTL_MS - 8_000);
    expect(after?.held).toBe(true);
    expect(after?.remainingMs()).toBeLessThanOrEqual(TTL_MS - 8_000);
  });

  test("a session that is nearly over is refreshed before anything is claimed by it", async () => {
    const locks = await open();
    await machineSleeps(25_000);
    const lease = await locks.mutex("refreshed").tryAcquire();
    expect(lease?.remainingMs()).toBeGreaterThan(TTL_MS - 5_000);
  });

  test("a keep-alive counts from its sending, though the machine slept before the answer", async () => {
    const locks = await open();
    await machineSleeps(25_000);
    const sleeping = sleepInMidRequest(8_000, () => true);
    const lease = await locks.mutex("kept").tryAcquire();
    await sleeping;
    expect(lease?.held).toBe(true);
    expect(lease?.remainingMs()).toBeLessThanOrEqual(TTL_MS - 8_000);
  });

  test("a fixed time that begins before the sleep is shorter by it", async () => {
    const locks = await open();
    let seen = 0;
    // First the claim, then the lease of its own.
    const sleeping = sleepInMidRequest(8_000, (data) => data.includes("fixed/") && ++seen === 2);
    const lease = await locks.mutex("fixed").tryAcquire({ renew: false });
    await sleeping;
    expect(lease?.held).toBe(true);
    expect(lease?.remainingMs()).toBeLessThanOrEqual(TTL_MS - 8_000);
  });

  test("a sleep past the ttl ends it at the first look", async () => {
    const lease = await (await open()).mutex("over").acquire();
    await machineSleeps(TTL_MS * 2);
    expect(lease.held).toBe(false);
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ code: "lost", loss: "paused" }));
  });
});
