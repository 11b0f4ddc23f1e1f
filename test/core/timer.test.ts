import { createLocks } from "locktender";
import { memory } from "locktender/memory";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { startInterval, startTimer } from "#lib/core/timer.js";

const LONGEST_TIMER_MS = 2 ** 31 - 1;

afterEach(() => {
  vi.restoreAllMocks();
});

test.each([
  [-1, 0],
  [-Infinity, 0],
  [Number.NaN, 0],
  [0, 0],
  [0.1, 1],
  [250, 250],
  [LONGEST_TIMER_MS + 1, LONGEST_TIMER_MS],
  [Infinity, LONGEST_TIMER_MS],
])("a timer of %d ms is one of %d ms to Node", (askedMs, delayMs) => {
  const [timeout, interval] = [vi.spyOn(globalThis, "setTimeout"), vi.spyOn(globalThis, "setInterval")];
  clearTimeout(startTimer(() => {}, askedMs));
  clearInterval(startInterval(() => {}, askedMs));
  expect(timeout.mock.lastCall?.[1]).toBe(delayMs);
  expect(interval.mock.lastCall?.[1]).toBe(delayMs);
});

test("a wait that is over when it asks again starts no timer with a negative time", async () => {
  const slow = memory("permits");
  const others = createLocks(memory("permits"));
  const pool = await others.semaphore("pool", 5).acquire();
  const { claim } = slow;
  let asked = 0;
  slow.claim = (async (request) => {
    if (asked++ === 0) {
      // While the first question is on its way, its wait ends, and others agree on another capacity.
      await new Promise((resolve) => setTimeout(resolve, 50));
      await pool.release();
      await others.semaphore("pool", 3).acquire();
    }
    return claim.call(slow, request);
  }) satisfies Backend["claim"];
  const locks = createLocks(slow);
  onTestFinished(async () => {
    await Promise.all([locks.close(), others.close()]);
  });
  const timeout = vi.spyOn(globalThis, "setTimeout");
  await locks.semaphore("pool").acquire({ wait: 20 });
  expect(asked).toBe(2);
  const delays = timeout.mock.calls.map(([, ms = 0]) => ms);
  expect(delays.filter((ms) => !(ms >= 0 && ms <= LONGEST_TIMER_MS))).toEqual([]);
});
