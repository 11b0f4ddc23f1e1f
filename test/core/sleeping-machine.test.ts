import { createLocks } from "locktender";
import { memory } from "locktender/memory";
import { describe, expect, test } from "vitest";
import { knownSleepMs, lookForSleepMs } from "#lib/core/clock.js";
import { open, proxyTo } from "../engines/redis/tools.js";
import { shared } from "../servers/shared.js";
import { letMachineSleep, machineSleeps } from "../support/sleeping-machine.js";

letMachineSleep();

describe("a machine that slept", () => {
  test("os.uptime() is compared, and what it finds only ever grows", async () => {
    const before = lookForSleepMs();
    expect(lookForSleepMs()).toBe(before);
    await machineSleeps(5_000);
    const after = lookForSleepMs();
    expect(after - before).toBeGreaterThan(4_900);
    expect(after - before).toBeLessThan(6_000);
    await machineSleeps(-5_000);
    expect(lookForSleepMs()).toBe(after);
    expect(knownSleepMs()).toBe(after);
  });

  test("a sleep past the ttl ends trust at the first look, and a shorter one brings the end nearer", async () => {
    const locks = createLocks(memory(), { ttl: "60s" });
    const [short, long] = [
      await locks.mutex("short").acquire(),
      await locks.mutex("long").acquire({ ttl: "10m" }),
    ];
    await machineSleeps(120_000);
    expect(short.held).toBe(false);
    expect(() => short.assertHeld()).toThrow(expect.objectContaining({ code: "lost", loss: "paused" }));
    expect(long.held).toBe(true);
    expect(long.remainingMs()).toBeLessThan(500_000);
  });

  test("what is asked for after the sleep is not shortened by it, though no code has looked at the clock in between", async () => {
    await machineSleeps(500_000);
    // Not `acquire`: that would ask again, and so be late and not wrong.
    const lease = await createLocks(memory(), { ttl: "60s" }).mutex("x").tryAcquire();
    expect(lease?.held).toBe(true);
    expect(lease?.remainingMs()).toBeGreaterThan(30_000);
  });

  test("what is renewed after the sleep is trusted for as long as ever", async () => {
    const lease = await createLocks(memory(), { ttl: "60s" }).mutex("x").acquire();
    await machineSleeps(50_000);
    expect(lease.held).toBe(true);
    expect(lease.remainingMs()).toBeLessThanOrEqual(10_000);
    await lease.update({ note: "asked after the sleep" });
    expect(lease.remainingMs()).toBeGreaterThan(30_000);
  });

  test("a lease that a sleep has ended is told as paused, also if other code noticed the sleep", async () => {
    const locks = createLocks(memory(), { ttl: 600 });
    const leases = [await locks.mutex("x").acquire(), await locks.mutex("y").acquire({ renew: false })];
    const signals = leases.map(({ signal }) => signal);
    await machineSleeps(2_000_000);
    lookForSleepMs();
    await expect.poll(() => signals.every(({ aborted }) => aborted), { timeout: 5_000 }).toBe(true);
    expect(signals.map(({ reason }) => reason.loss)).toEqual(["paused", "paused"]);
  });
});

describe("a machine that sleeps for 10 s while a request is under way", () => {
  const SLEEP_MS = 10_000;

  /** Locks on a server whose next request about that name is under way for as long as the machine sleeps. */
  async function sleepy(ttl: number) {
    const { proxy, url } = await proxyTo((await shared("redis")).url);
    const locks = open({ url, prefix: `sleep-${process.pid}` }, { ttl });
    await locks.mutex("warm").run(() => undefined);
    const sleepInMidRequest = async (name: string) => {
      const held = proxy.holdBack((data) => data.includes(name));
      await held.caught;
      await machineSleeps(SLEEP_MS);
      await held.deliver();
    };
    return { locks, sleepInMidRequest };
  }

  test("a grant of which nothing can be left is no lease", async () => {
    const { locks, sleepInMidRequest } = await sleepy(5_000);
    const sleeping = sleepInMidRequest("{tried}");
    const tried = locks.mutex("tried").tryAcquire();
    await expect(tried).rejects.toMatchObject({ code: "backend", retryable: true });
    await sleeping;
  });

  test("a waiter asks again, and no callback starts under what is over", async () => {
    const { locks, sleepInMidRequest } = await sleepy(5_000);
    const sleeping = sleepInMidRequest("{run}");
    const seen: boolean[] = [];
    await locks.mutex("run").run((lease) => void seen.push(lease.held));
    expect(seen).toEqual([true]);
    await sleeping;
  });

  test("a longer grant is trusted for what the server still keeps of it", async () => {
    const { locks, sleepInMidRequest } = await sleepy(30_000);
    const sleeping = sleepInMidRequest("{long}");
    const lease = await locks.mutex("long").acquire();
    expect(lease.held).toBe(true);
    expect(lease.remainingMs()).toBeLessThanOrEqual(30_000 - SLEEP_MS);
    await sleeping;
    const sleepingAgain = sleepInMidRequest("{long}");
    await lease.update({ note: "asked before the sleep, answered after it" });
    expect(lease.held).toBe(true);
    expect(lease.remainingMs()).toBeLessThanOrEqual(30_000 - SLEEP_MS);
    await sleepingAgain;
  });

  test("a renewal that was sent before it does not keep the lease", async () => {
    const { locks, sleepInMidRequest } = await sleepy(3_000);
    const lease = await locks.mutex("renewed").acquire();
    await sleepInMidRequest("{renewed}");
    expect(lease.held).toBe(false);
    await expect.poll(() => lease.signal.aborted, { timeout: 5_000 }).toBe(true);
    expect(lease.signal.reason).toMatchObject({ code: "lost", loss: "paused" });
  });
});
