import { describe, expect, test } from "vitest";
import { Quorum, sleep } from "./tools.js";
import { lossOf, Voters } from "./voters.js";

const voters = await Voters.start();
const { ports } = voters;

describe("a majority of servers is lost", () => {
  test("killed: it is an outage that says which, holders are told, and it ends when they are back", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "1s" });
    const locks = quorum.open({ ttl: "1s" });
    const lease = await locks.mutex("a").acquire();
    await voters.kill(0, 1, 2);
    const startedAt = performance.now();
    const error = await locks
      .mutex("b")
      .tryAcquire()
      .catch((reason: unknown) => reason);
    expect(performance.now() - startedAt).toBeLessThan(3_000);
    expect(error).toMatchObject({ code: "backend", retryable: true });
    for (const place of [0, 1, 2]) expect(String(error)).toContain(`127.0.0.1:${ports[place]}`);
    for (const place of [3, 4]) expect(String(error)).not.toContain(`127.0.0.1:${ports[place]}`);
    await expect(locks.mutex("a").acquire({ wait: 300 })).rejects.toMatchObject({ code: "backend" });
    expect(await lossOf(lease)).toBe("expired");
    await voters.restartEmpty(0, 1, 2);
    const young = await quorum
      .open({ ttl: "1s" })
      .mutex("b")
      .tryAcquire()
      .catch((reason: unknown) => reason);
    expect(young).toMatchObject({ code: "backend", retryable: true });
    expect(String(young)).toMatch(/has lost its memory or is new, and votes in \d/);
    const next = await quorum.held("a", { ttl: "1s" });
    expect(next.token).toBeGreaterThan(lease.token);
  });

  test("stopped: it is an outage within its time, and nothing is held by any client afterwards", async () => {
    const quorum = await Quorum.on(ports);
    const locks = quorum.open({ ttl: "1s" });
    await locks.mutex("a").run(() => undefined);
    voters.pause(0, 1, 2);
    const startedAt = performance.now();
    await expect(locks.mutex("a").tryAcquire()).rejects.toMatchObject({ code: "backend" });
    expect(performance.now() - startedAt).toBeLessThan(1_500);
    await expect(locks.mutex("a").acquire({ wait: "5s" })).rejects.toMatchObject({ code: "backend" });
    voters.resume();
    await quorum.nothingLeft("a", 3_000);
    expect(await locks.mutex("a").run(({ held }) => held)).toBe(true);
  });

  test("stopped: all waiters of one process are told in their time, and not one after the other", async () => {
    const quorum = await Quorum.on(ports);
    const lease = await quorum.open({ ttl: "10s" }).mutex("a").acquire();
    const locks = quorum.open({ ttl: "500ms", wait: "60s" });
    const waits = Array.from({ length: 10 }, () => locks.mutex("a").acquire());
    const told = Promise.all(waits.map((wait) => expect(wait).rejects.toMatchObject({ code: "backend" })));
    await sleep(200);
    voters.pause(2, 3, 4);
    const startedAt = performance.now();
    await told;
    expect(performance.now() - startedAt).toBeLessThan(4_000);
    voters.resume();
    expect(await lease.release()).toBe(true);
    await quorum.nothingLeft("a", 3_000);
  });

  test("flushed: the holder is told by its next renewal, and no other client is let in before its time is over", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "2s", fresh: false });
    await quorum
      .open({}, { fresh: true })
      .mutex("a")
      .run({ ttl: "1s" }, () => undefined);
    const lease = await quorum.open({ ttl: "1500ms" }).mutex("a").acquire();
    const flushedAt = performance.now();
    await voters.flush(0, 1, 2);
    const waiting = quorum.held("a", { ttl: "2s" });
    expect(await lossOf(lease)).toBe("taken");
    expect(performance.now() - flushedAt).toBeLessThan(1_500);
    const next = await waiting;
    expect(performance.now() - flushedAt).toBeGreaterThan(1_950);
    expect(next.token).toBeGreaterThan(lease.token);
  });

  test("out of reach for the holder: it is told before another client is let in", async () => {
    const quorum = await Quorum.on(ports);
    const { locks, proxies } = await quorum.behind([0, 1, 2], { ttl: "1s" });
    const lease = await locks.mutex("a").acquire();
    let toldAt = Number.NaN;
    lease.signal.addEventListener("abort", () => {
      toldAt = performance.now();
    });
    for (const proxy of proxies) proxy.blackhole("both");
    const next = await quorum.open().mutex("a").acquire();
    expect(toldAt).toBeLessThanOrEqual(performance.now());
    expect(next.token).toBeGreaterThan(lease.token);
    await expect(locks.mutex("b").tryAcquire()).rejects.toMatchObject({ code: "backend" });
    // What it got from the minority, it has given back: two of five need not be waited for.
    expect(await quorum.open().mutex("b").tryAcquire()).not.toBeNull();
  });
});
