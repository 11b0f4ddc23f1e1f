import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { createLocks, type Locks, type LocksOptions } from "locktender";
import { zookeeper } from "locktender/zookeeper";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { WorkerProcess } from "#lib/testing/worker-process.js";
import { askServer, startZooKeeper, type ZooKeeper } from "./server.js";
import { TestClient } from "./test-client.js";

let server: ZooKeeper;
beforeAll(async () => {
  server = await startZooKeeper({ config: ["maxSessionTimeout=9000"] });
});
afterAll(() => server.stop());

let names = 0;
let name: string;
beforeEach(() => {
  name = `session-${++names}`;
});

function open(options: LocksOptions = {}): Locks {
  const locks = createLocks(zookeeper({ url: server.url }), { ttl: "6s", ...options });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

async function worker(options: LocksOptions = {}): Promise<WorkerProcess> {
  const module = new URL("./worker-backend.mjs", import.meta.url).href;
  const started = await WorkerProcess.start({ module, args: { url: server.url } }, { ttl: "6s", ...options });
  onTestFinished(() => started.kill());
  return started;
}

async function received(): Promise<number> {
  const [node] = server.nodes;
  const text = await askServer(node?.host ?? "", node?.port ?? 0, "srvr");
  return Number(/^Received: (\d+)/m.exec(text)?.[1]);
}

async function connections(): Promise<number> {
  const [node] = server.nodes;
  const text = await askServer(node?.host ?? "", node?.port ?? 0, "cons");
  return text.split("\n").filter((line) => line !== "").length;
}

describe("what it costs", () => {
  test("a free lock is taken and given back with three requests", async () => {
    const locks = open();
    await locks.mutex(name).run(() => undefined);
    const before = await received();
    for (let cycle = 0; cycle < 100; cycle++) await locks.mutex(name).run(() => undefined);
    // And a ping or two; and the question itself.
    expect((await received()) - before).toBeLessThanOrEqual(305);
  });

  test("a name that was never used costs no more", async () => {
    const locks = open();
    await locks.mutex(name).run(() => undefined);
    const before = await received();
    for (let index = 0; index < 100; index++) await locks.mutex(`${name}-${index}`).run(() => undefined);
    expect((await received()) - before).toBeLessThanOrEqual(305);
  });

  test("similar times to live share a session, and so a connection", async () => {
    const locks = open();
    await locks.mutex(name).acquire({ ttl: "6s" });
    const before = await connections();
    await locks.mutex(`${name}-2`).acquire({ ttl: 5_800 });
    expect(await connections()).toBe(before);
    await locks.mutex(`${name}-3`).acquire({ ttl: "3s" });
    expect(await connections()).toBe(before + 1);
  });

  test("times to live that each are a little longer do not need a session each", async () => {
    const before = await connections();
    const locks = open();
    for (let ttl = 4_000; ttl < 8_000; ttl += 39) {
      for (const again of [ttl, ttl]) await locks.mutex(name).run({ ttl: again }, () => undefined);
    }
    expect((await connections()) - before).toBeLessThan(12);
  });
});

describe("how long a session lasts", () => {
  test("a ttl below what the servers allow is raised to that", async () => {
    const lease = await open().mutex(name).acquire({ ttl: 100 });
    expect(lease.remainingMs()).toBeGreaterThan(200);
    await sleep(1_000);
    expect(lease.held).toBe(true);
  });

  test("what the servers cannot keep is refused, and it says what to do", async () => {
    const locks = open();
    const refused = { code: "unsupported", message: expect.stringContaining("at most 9000 ms") };
    await expect(locks.mutex(name).acquire({ ttl: "10s" })).rejects.toMatchObject(refused);
    await expect(locks.mutex(name).acquire({ ttl: "7s", renew: false })).rejects.toMatchObject(refused);
    await expect(locks.mutex(name).acquire({ minHold: "7s" })).rejects.toMatchObject(refused);
    expect(await locks.mutex(name).run({ maxHold: "1h" }, (lease) => lease.held)).toBe(true);
    expect(await locks.mutex(name).run({ ttl: "6s", renew: false }, (lease) => lease.held)).toBe(true);
  });

  test("an idle connection does not keep a process alive, and a held lock neither", async () => {
    const script = `
      const { connect } = await import("locktender");
      const locks = await connect(${JSON.stringify(server.url)}, { ttl: "6s" });
      await locks.mutex(${JSON.stringify(name)}).acquire();
      console.log("done");`;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], {
      timeout: 5_000,
    });
    expect(stdout).toBe("done\n");
  });
});

describe("minHold", () => {
  test.each(["right after the grant", "right after the release"])(
    "no waiter is let in earlier, though the process dies %s",
    async (when) => {
      const holder = await worker({ ttl: 600 });
      const { lease } = await holder.acquire(name, { minHold: "2s" });
      const grantedAt = performance.now();
      if (when.endsWith("release")) expect(await holder.release(lease)).toBe(true);
      await holder.kill();
      const next = await open().mutex(name).acquire({ wait: "20s" });
      expect(performance.now() - grantedAt).toBeGreaterThanOrEqual(1_950);
      expect(performance.now() - grantedAt).toBeLessThan(2_000 * 1.5 + 1_000);
      await next.release();
    },
  );
});

describe("nodes of ours that others delete", () => {
  test("the session goes on when another program has deleted its nodes", async () => {
    const locks = open({ ttl: "3s" });
    const lease = await locks.mutex(name).acquire();
    const client = await TestClient.open(server.url, 5_000);
    for (const node of await client.children("/locktender")) {
      if (node.startsWith("%")) await client.remove(`/locktender/${node}`);
    }
    await sleep(3_500);
    expect(lease.held).toBe(true);
    await open().forceRelease(name, { reason: "still heard" });
    await expect.poll(() => lease.signal.reason?.reason).toBe("still heard");
    await client.close();
  });
});
