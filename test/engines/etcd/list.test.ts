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

function open(prefix: string): Locks {
  const locks = createLocks(etcd({ url: server.url, prefix }), { ttl: "60s" });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

describe("what is read from the servers", () => {
  test("a list of several pages shows what is left of everything on them", async () => {
    const [first, second] = [open("pages"), open("pages")];
    const names = (letter: string, count: number) =>
      Array.from({ length: count }, (_, index) => `${letter}-${String(index).padStart(4, "0")}`);
    await second.mutex("z").acquire();
    // A page has 1,000 keys: those of the two sessions come first, and the last of these is told with the next page.
    await Promise.all(names("a", 998).map((name) => first.mutex(name).acquire()));
    const rests: number[] = [];
    for await (const { holders } of first.list({ prefix: "" })) {
      rests.push(...holders.map(({ remainingMs }) => remainingMs));
    }
    expect(rests).toHaveLength(999);
    expect(Math.min(...rests)).toBeGreaterThan(0);
  });

  test.each(["garbage", "null", "5"])("a word that is %j instead of ours harms no holder", async (word) => {
    const locks = open("words");
    const lease = await locks.mutex("x").acquire();
    const value = await etcdctl(server.nodes, "get", "--prefix", "words/x/", "--print-value-only");
    const { bell } = JSON.parse(value) as { bell: string };
    await etcdctl(server.nodes, "put", `words/%forced/${bell}/nobody`, word);
    await sleep(200);
    expect(await lease.release()).toBe(true);
  });
});
