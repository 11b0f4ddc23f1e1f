import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type Duration, type Locks } from "locktender";
import { etcd } from "locktender/etcd";
import { startFaultProxy } from "locktender/testing";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { etcdctl } from "./harness.js";
import { type Etcd, startEtcd } from "./server.js";

let server: Etcd;
beforeAll(async () => {
  server = await startEtcd();
});
afterAll(() => server.stop());

function open(prefix: string, ttl: Duration, url = server.url): Locks {
  const locks = createLocks(etcd({ url, prefix }), { ttl });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

async function sessions(prefix: string): Promise<number> {
  const keys = await etcdctl(server.nodes, "get", "--prefix", `${prefix}/%session/`, "--keys-only");
  return keys.split("\n").filter((line) => line !== "").length;
}

describe("the session of a connection", () => {
  test("when it has ended, all callers that notice it share one new one", async () => {
    const locks = open("shared", "3s");
    await locks.mutex("warm").run(() => undefined);
    await expect.poll(() => sessions("shared"), { timeout: 10_000 }).toBe(0);
    const names = Array.from({ length: 20 }, (_, index) => `x-${index}`);
    await Promise.all(names.map((name) => locks.mutex(name).acquire()));
    expect(await sessions("shared")).toBe(1);
    await locks.close();
    expect(await sessions("shared")).toBe(0);
  });

  test("where answers take longer than it lives, it is told as what it is", async () => {
    const { host, port } = server.nodes[0] as Etcd["nodes"][number];
    const proxy = await startFaultProxy({ target: { host, port } });
    onTestFinished(() => proxy.close());
    const locks = open("slow", "1s", `etcd://${proxy.host}:${proxy.port}`);
    await locks.mutex("x").run(() => undefined);
    await sleep(2_000);
    proxy.delay({ toServerMs: 600, toClientMs: 600 });
    onTestFinished(() => proxy.heal());
    await expect(locks.mutex("x").acquire({ wait: "1s" })).rejects.toMatchObject({
      code: "backend",
      retryable: true,
      message: expect.stringMatching(/raise it|slow/),
    });
  });

  test("a release at the end of minHold that fails is tried again, though other claims keep the session", async () => {
    const { host, port } = server.nodes[0] as Etcd["nodes"][number];
    const proxy = await startFaultProxy({ target: { host, port } });
    onTestFinished(() => proxy.close());
    const locks = open("kept", "6s", `etcd://${proxy.host}:${proxy.port}`);
    await locks.mutex("other").acquire();
    const startedMs = performance.now();
    const until = (ms: number) => sleep(startedMs + ms - performance.now());
    const lease = await locks.mutex("x").acquire({ minHold: "8s" });
    // By then a renewal has moved it from its own lease back to the session.
    await until(5_000);
    await lease.release();
    await until(7_700);
    proxy.refuse();
    await until(8_500);
    proxy.heal();
    const next = await open("kept", "6s").mutex("x").acquire({ wait: "8s" });
    expect(performance.now() - startedMs).toBeGreaterThan(8_000);
    expect(next.token).toBeGreaterThan(lease.token);
  });
});
