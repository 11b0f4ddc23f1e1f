import { describe, expect, test } from "vitest";
import { Quorum, sleep } from "./tools.js";
import { Voters } from "./voters.js";

const voters = await Voters.start();
const { ports } = voters;

describe("a minority of servers is lost", () => {
  test("killed: leases are renewed, taken and given back as before, also by clients that come now", async () => {
    const quorum = await Quorum.on(ports);
    const locks = quorum.open({ ttl: "1s" });
    const lease = await locks.mutex("a").acquire();
    await voters.kill(0, 3);
    const others = quorum.open();
    const waiting = others.mutex("a").acquire();
    await sleep(1_500);
    expect(lease.held).toBe(true);
    expect(await others.mutex("a").tryAcquire()).toBeNull();
    expect(await lease.release()).toBe(true);
    const next = await waiting;
    expect(next.token).toBeGreaterThan(lease.token);
    expect((await others.inspect("a")).holders.map(({ token }) => token)).toEqual([next.token]);
    expect(await next.release()).toBe(true);
  });

  test("stopped: no client waits for them, and what reaches them late is not left there", async () => {
    const quorum = await Quorum.on(ports);
    const locks = quorum.open({ ttl: "2s" });
    await locks.mutex("a").run(() => undefined);
    voters.pause(1, 4);
    const startedAt = performance.now();
    let last = 0n;
    for (let round = 0; round < 50; round++) {
      const token = await locks.mutex("a").run((lease) => lease.token);
      expect(token).toBeGreaterThan(last);
      last = token;
    }
    // Waiting for them would take a third of the ttl, each time.
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    voters.resume();
    await quorum.nothingLeft("a", 4_000);
    expect(await locks.mutex("a").run((lease) => lease.token)).toBeGreaterThan(last);
  });

  test("flushed: the holder keeps its lock, and no other client gets it", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "1s" });
    const lease = await quorum.open({ ttl: 900 }).mutex("a").acquire();
    await voters.flush(0, 1);
    const others = quorum.open({ ttl: 900 });
    for (let round = 0; round < 10; round++) {
      expect(await others.mutex("a").tryAcquire()).toBeNull();
      await sleep(150);
    }
    expect(lease.held).toBe(true);
    // It has been renewed, and the client did not give it back to the servers that forgot it.
    await expect.poll(() => quorum.claims("a")).toEqual([0, 0, 1, 1, 1]);
    expect(await lease.release()).toBe(true);
    expect(await others.mutex("a").run(({ token }) => token)).toBeGreaterThan(lease.token);
  });

  test("out of reach for one client: it holds and takes locks like the others", async () => {
    const quorum = await Quorum.on(ports);
    const { locks, proxies } = await quorum.behind([2, 3], { ttl: "1s" });
    const lease = await locks.mutex("a").acquire();
    for (const proxy of proxies) proxy.blackhole("both");
    await sleep(1_500);
    expect(lease.held).toBe(true);
    expect(await quorum.open().mutex("a").tryAcquire()).toBeNull();
    expect(await lease.release()).toBe(true);
    expect(await locks.mutex("b").run(({ held }) => held)).toBe(true);
  });

  test("scenario S13: the replies of three are lost after they voted; the lock is held once, and given back", async () => {
    const quorum = await Quorum.on(ports);
    const { locks, proxies } = await quorum.behind([0, 1, 2], { ttl: "5s" });
    await locks.mutex("b").run(() => undefined);
    const cuts = proxies.map((proxy) => proxy.cutBeforeReply((data) => data.includes("{a}")));
    const lease = await locks.mutex("a").acquire();
    await Promise.all(cuts);
    const watcher = quorum.open();
    expect((await watcher.inspect("a")).holders.map(({ token }) => token)).toEqual([lease.token]);
    expect(await watcher.mutex("a").tryAcquire()).toBeNull();
    expect(await lease.release()).toBe(true);
    await quorum.nothingLeft("a", 2_000);
  });
});
