import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type Locks } from "locktender";
import { startFaultProxy } from "locktender/testing";
import { zookeeper } from "locktender/zookeeper";
import { describe, expect, onTestFinished, test } from "vitest";
import { SessionTrust } from "#lib/backends/zookeeper/client.js";
import { startZooKeeper } from "./server.js";

const at = (atMs: number, sleptMs = 0) => ({ atMs, sleptMs });

function trustFrom(atMs: number): SessionTrust {
  const trust = new SessionTrust(1_200);
  trust.attached(at(atMs));
  return trust;
}

describe("until when a session is trusted", () => {
  test("two thirds of the timeout from the sending of an acknowledged write", () => {
    const trust = trustFrom(1_000);
    expect(trust.deadlineMs).toBe(-Infinity);
    trust.proven(at(1_000));
    expect(trust.deadlineMs).toBe(1_800);
    trust.answered(at(1_400), 1_401);
    expect(trust.deadlineMs).toBe(1_800);
  });

  test("not longer than the leader can have counted: it is told of us every half tick", () => {
    const trust = trustFrom(0);
    for (const atMs of [1_000, 1_500, 1_900]) trust.answered(at(atMs), atMs + 1);
    // A quarter of the timeout before it, only what was sent at 1,500 had been answered.
    trust.proven(at(2_050));
    expect(trust.deadlineMs).toBe(2_700);
    for (const atMs of [2_000, 2_080, 2_160]) trust.answered(at(atMs), atMs + 1);
    trust.proven(at(2_400));
    expect(trust.deadlineMs).toBe(3_200);
  });

  test("an answer that was long under way does not show that the leader was told before it", () => {
    const trust = trustFrom(0);
    trust.answered(at(1_500), 1_501);
    trust.answered(at(1_700), 2_000);
    trust.proven(at(2_050));
    expect(trust.deadlineMs).toBe(2_700);
  });

  test("a sleep of the machine between the two counts", () => {
    const trust = trustFrom(0);
    trust.answered(at(1_500), 1_501);
    trust.proven(at(2_050, 300));
    // No sleep was seen here since the process started.
    expect(trust.deadlineMs).toBe(2_400 + 300);
  });

  test("an answer that comes late takes nothing back", () => {
    const trust = trustFrom(1_000);
    trust.proven(at(1_200));
    trust.proven(at(1_100));
    expect(trust.deadlineMs).toBe(2_000);
  });
});

test("servers that allow sessions of different lengths: the holder is told before the next one is in", async () => {
  const ensemble = await startZooKeeper({ members: 3, configOf: [[], ["maxSessionTimeout=1500"]] });
  onTestFinished(() => ensemble.stop());
  const [long, short, third] = await Promise.all(
    ensemble.nodes.map(async ({ host, port }) => {
      const proxy = await startFaultProxy({ target: { host, port } });
      onTestFinished(() => proxy.close());
      return proxy;
    }),
  );
  const open = (...ports: (number | undefined)[]): Locks => {
    const url = `zookeeper://${ports.map((port) => `127.0.0.1:${port}`).join(",")}`;
    const locks = createLocks(zookeeper({ url, timeout: "1s" }), { ttl: "1s" });
    onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
    return locks;
  };
  short?.refuse();
  const lease = await open(long?.port, short?.port).mutex("orders").acquire({ ttl: "5s" });
  let toldAt = Infinity;
  lease.signal.addEventListener("abort", () => {
    toldAt = performance.now();
  });
  short?.heal();
  long?.refuse();
  await sleep(1_000);
  short?.blackhole("both");
  const next = await open(third?.port).mutex("orders").acquire({ wait: "30s" });
  expect(toldAt).toBeLessThan(performance.now());
  expect(next.token).toBeGreaterThan(lease.token);
});
