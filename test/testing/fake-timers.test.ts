import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

// Faked before the library is loaded, as a setup file or a setting of the tool would do it.
beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe.each(["memory:", "sqlite:"])("with all timers faked, on %s", (engine) => {
  const url = engine === "memory:" ? engine : `sqlite:/tmp/locktender-fake-${process.pid}.db`;

  test("locks are taken, waited for, given back and closed", async () => {
    const { connect } = await import("locktender");
    const locks = await connect(url);
    const lease = await locks.mutex("a").acquire();
    const next = locks.mutex("a").run(() => "next");
    await vi.advanceTimersByTimeAsync(100);
    await lease.release();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await next).toBe("next");
    for (let round = 0; round < 50; round++) await locks.mutex("b").run(() => undefined);
    await locks.mutex("c").acquire();
    await locks.close();
  });
});

test("a lease is renewed and lost by the clock of the test", async () => {
  const { connect } = await import("locktender");
  const locks = await connect("memory:", { ttl: "15s" });
  const renewed = await locks.mutex("a").acquire();
  const fixed = await locks.mutex("b").acquire({ renew: false });
  await vi.advanceTimersByTimeAsync(60_000);
  expect([renewed.held, fixed.held, fixed.signal.reason.loss]).toEqual([true, false, "expired"]);
  await locks.close();
});
