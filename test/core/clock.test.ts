import { setTimeout as sleep } from "node:timers/promises";
import { createLocks } from "locktender";
import { memory } from "locktender/memory";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { ClaimState } from "#lib/core/claim-state.js";
import { driftMs, sendingNow } from "#lib/core/clock.js";

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

describe("with fake timers", () => {
  // As in any test runner, the process has run for a while, and the fake clock begins elsewhere.
  beforeAll(() => sleep(Math.max(0, 2_500 - performance.now())));
  beforeEach(() => {
    vi.useFakeTimers({
      toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date", "performance"],
    });
  });

  test("a lease that is shorter than the process is old is held", async () => {
    const locks = createLocks(memory());
    const lease = await locks.mutex("x").acquire({ ttl: "2s", renew: false });
    expect(lease.held).toBe(true);
    expect(lease.remainingMs()).toBeGreaterThan(1_900);
    const renewed = await locks.mutex("y").acquire({ ttl: "2s" });
    await vi.advanceTimersByTimeAsync(5_000);
    expect([lease.held, renewed.held]).toEqual([false, true]);
  });

  test("a fixed lease is held until its time is over, and not longer", async () => {
    const locks = createLocks(memory());
    const lease = await locks.mutex("x").acquire({ ttl: "10s", renew: false });
    const { signal } = lease;
    expect(lease.held).toBe(true);
    await vi.advanceTimersByTimeAsync(9_800);
    expect([lease.held, signal.aborted]).toEqual([true, false]);
    expect(lease.remainingMs()).toBeLessThanOrEqual(200);
    await vi.advanceTimersByTimeAsync(300);
    expect([lease.held, signal.aborted]).toEqual([false, true]);
    expect(signal.reason).toMatchObject({ code: "lost", loss: "expired" });
    expect(await locks.mutex("x").tryAcquire()).not.toBeNull();
  });

  test("a renewed lease is held for as long as the fake time likes", async () => {
    const locks = createLocks(memory(), { ttl: "15s" });
    const lease = await locks.mutex("x").acquire();
    for (let minute = 0; minute < 10; minute++) {
      await vi.advanceTimersByTimeAsync(60_000);
      expect(lease.held).toBe(true);
    }
    expect(await lease.release()).toBe(true);
  });

  test("a wait ends when the fake time says so", async () => {
    const locks = createLocks(memory());
    await locks.mutex("x").acquire();
    let ended = false;
    const waiting = locks.mutex("x").acquire({ wait: "30s" });
    waiting.catch(() => {
      ended = true;
    });
    await vi.advanceTimersByTimeAsync(29_000);
    expect(ended).toBe(false);
    await vi.advanceTimersByTimeAsync(1_500);
    expect(ended).toBe(true);
    await expect(waiting).rejects.toMatchObject({ code: "timeout" });
  });

  test("the wall clock may be set to anything: no lease ends by it and none is prolonged", async () => {
    const locks = createLocks(memory());
    const lease = await locks.mutex("x").acquire({ ttl: "10s", renew: false });
    vi.setSystemTime(new Date("2099-01-01"));
    expect(lease.held).toBe(true);
    vi.setSystemTime(new Date("1999-01-01"));
    await vi.advanceTimersByTimeAsync(10_100);
    expect(lease.held).toBe(false);
  });
});

describe("trust", () => {
  test("counts from the sending, minus the drift, and a later answer never shortens it", () => {
    const place = new ClaimState("x", "mutex", 10_000, false, true);
    const sent = sendingNow();
    const sentAtMs = sent.atMs;
    place.acknowledge(1n, 10_000, sent);
    expect(place.trustedUntilMs()).toBeCloseTo(sentAtMs + 10_000 - driftMs(10_000), 3);
    place.acknowledge(1n, 5_000, sent);
    expect(place.trustedUntilMs()).toBeCloseTo(sentAtMs + 10_000 - driftMs(10_000), 3);
    // Another ticket is another claim: nothing is carried over.
    place.acknowledge(2n, 5_000, sent);
    expect(place.trustedUntilMs()).toBeCloseTo(sentAtMs + 5_000 - driftMs(10_000), 3);
  });

  test("the drift is one percent and two milliseconds", () => {
    expect([driftMs(0), driftMs(1_000), driftMs(60_000)]).toEqual([2, 12, 602]);
  });
});
