import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type Locks } from "locktender";
import { etcd } from "locktender/etcd";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { etcdctl } from "./harness.js";
import { type Etcd, startEtcd } from "./server.js";

let server: Etcd;
beforeAll(async () => {
  server = await startEtcd();
});
afterAll(() => server.stop());

/** Without a prefix, our names are those of `etcdctl lock`; with one, it stands in front of them. */
function open(prefix = ""): Locks {
  const locks = createLocks(etcd({ url: server.url, prefix }));
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

interface Foreigner {
  readonly entered: Promise<void>;
  leave(): Promise<void>;
}

/** `etcdctl lock`, which says its key when it is in, and leaves when it is interrupted. */
function foreigner(name: string): Foreigner {
  const child = spawn("etcdctl", ["--endpoints", `127.0.0.1:${server.nodes[0]?.port}`, "lock", name], {
    env: { ...process.env, ETCDCTL_API: "3" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const entered = once(createInterface(child.stdout), "line").then(() => undefined);
  return {
    entered,
    async leave() {
      const exited = once(child, "exit");
      child.kill("SIGINT");
      await exited;
    },
  };
}

async function claims(name: string): Promise<number> {
  const listed = await etcdctl(server.nodes, "get", "--prefix", `${name}/`, "--keys-only");
  return listed.split("\n").filter((line) => line !== "").length;
}

async function queued(name: string, count: number): Promise<void> {
  await expect.poll(() => claims(name), { timeout: 10_000, interval: 20 }).toBe(count);
}

describe("etcdctl lock and our mutex on the same name", () => {
  test("exclude each other in both directions, and keep the order of arrival", async () => {
    const locks = open();
    const order: string[] = [];
    const first = foreigner("shared");
    await first.entered;
    expect(await locks.mutex("shared").tryAcquire()).toBeNull();
    const second = locks.mutex("shared").run(async () => {
      order.push("ours");
      await sleep(100);
    });
    await queued("shared", 2);
    const third = foreigner("shared");
    third.entered.then(() => order.push("theirs")).catch(() => undefined);
    await queued("shared", 3);
    const fourth = locks.mutex("shared", { fair: true }).run(() => void order.push("ours again"));
    await queued("shared", 4);
    expect(order).toEqual([]);
    await first.leave();
    await second;
    await third.entered;
    await sleep(200);
    expect(order).toEqual(["ours", "theirs"]);
    await third.leave();
    await fourth;
    expect(order).toEqual(["ours", "theirs", "ours again"]);
    await queued("shared", 0);
  });

  test("meet under a prefix, too", async () => {
    const locks = open("team/locks");
    await locks.mutex("x").run(async () => {
      const other = foreigner("team/locks/x");
      let entered = false;
      other.entered
        .then(() => {
          entered = true;
        })
        .catch(() => undefined);
      await queued("team/locks/x", 2);
      await sleep(200);
      expect(entered).toBe(false);
    });
    await queued("team/locks/x", 1);
    expect(await locks.mutex("x").tryAcquire()).toBeNull();
  });

  test("a stranger is seen, blamed and, by an operator, sent away", async () => {
    const locks = open();
    await foreigner("stuck").entered;
    const { holders } = await locks.inspect("stuck");
    expect(holders).toMatchObject([{ owner: { instance: "another program" } }]);
    await expect(locks.mutex("stuck").acquire({ wait: 100 })).rejects.toThrow(/another program|unknown/);
    expect(await locks.forceRelease("stuck", { reason: "abandoned" })).toHaveLength(1);
    expect(await locks.mutex("stuck").tryAcquire()).not.toBeNull();
  });
});
