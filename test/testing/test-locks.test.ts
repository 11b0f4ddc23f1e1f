import { readFileSync } from "node:fs";
import { isLockError } from "locktender";
import { createTestLocks, type TestLocks } from "locktender/testing";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LOCKS_OPTIONS } from "#lib/locks/locks-options.js";

/** Code under test, as people write it: it stops when it is told that its lock is lost. */
async function nightlyJob({ locks }: TestLocks): Promise<string> {
  return locks.mutex("nightly").run(async ({ signal }) => {
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    return "done";
  });
}

describe.each(["real", "fake"])("with %s timers", (timers) => {
  beforeEach(() => void (timers === "fake" && vi.useFakeTimers()));
  afterEach(() => void vi.useRealTimers());

  test.each(["expired", "taken", "forced", "paused", "session", "closed"] as const)(
    "code under test is told of the loss %s",
    async (loss) => {
      const tested = createTestLocks();
      const job = nightlyJob(tested).catch((error: unknown) => error);
      await vi.waitFor(async () => expect((await tested.locks.inspect("nightly")).holders).toHaveLength(1));
      await tested.lose("nightly", loss, { reason: "a test", by: "me" });
      const told = loss === "closed" ? {} : { reason: "a test", by: "me" };
      expect(await job).toMatchObject({ code: "lost", loss, ...told });
      await tested.locks.close();
    },
  );

  test("when a lease expires, the next waiter gets in, with a greater token", async () => {
    const { locks, expire } = createTestLocks();
    const first = await locks.mutex("a").acquire();
    const waiting = locks.mutex("a").acquire();
    await expire("a");
    const next = await waiting;
    expect([first.held, first.signal.reason.loss, next.held]).toEqual([false, "expired", true]);
    expect(next.token).toBeGreaterThan(first.token);
    await locks.close();
  });

  test("time passes as far as the test says: renewal, fixed leases, maxHold, waits and kept results", async () => {
    const { locks, clock } = createTestLocks();
    const [renewed, fixed, limited] = [
      await locks.mutex("renewed").acquire({ ttl: "15s" }),
      await locks.mutex("fixed").acquire({ ttl: "15s", renew: false }),
      await locks.mutex("limited").acquire({ maxHold: "10m" }),
    ];
    const wait = locks.mutex("renewed").acquire({ wait: "1m" });
    const gaveUp = expect(wait).rejects.toMatchObject({ code: "timeout", position: 1 });
    await clock.advance("14s");
    expect([fixed.held, limited.held]).toEqual([true, true]);
    await clock.advance("1s");
    expect([fixed.held, fixed.signal.aborted]).toEqual([false, true]);
    await clock.advance("50s");
    await gaveUp;
    await clock.advance("1h");
    expect([renewed.held, limited.held]).toEqual([true, false]);
    let runs = 0;
    const ask = () => locks.once("bill", { keep: "1d" }, () => ++runs);
    await ask();
    await clock.advance("23h");
    expect(await ask()).toEqual({ ran: false, value: 1 });
    await clock.advance("2h");
    expect(await ask()).toEqual({ ran: true, value: 2 });
    await locks.close();
  });

  test("an outage shorter than the ttl costs no lease, and a longer one is told before its end", async () => {
    const { locks, clock, outage } = createTestLocks({ ttl: "15s" });
    const lease = await locks.mutex("a").acquire();
    outage("5s");
    await expect(locks.mutex("b").tryAcquire()).rejects.toMatchObject({ code: "backend", retryable: true });
    const waiting = locks.mutex("b").acquire();
    await clock.advance("6s");
    expect([lease.held, (await waiting).held]).toEqual([true, true]);
    outage("1m");
    await clock.advance("20s");
    expect([lease.held, lease.signal.reason.loss]).toEqual([false, "expired"]);
    const tooLong: unknown = await Promise.all([
      locks
        .mutex("c")
        .acquire({ wait: "10s" })
        .catch((error: unknown) => error),
      clock.advance("11s"),
    ]).then(([error]) => error);
    expect(isLockError(tooLong, "backend")).toBe(true);
    await clock.advance("1m");
    expect(await locks.mutex("a").run(() => "back")).toBe("back");
    await locks.close();
  });
});

test("what cannot be lost is refused", async () => {
  const { locks, expire, lose, clock, outage } = createTestLocks();
  await expect(expire("free")).rejects.toMatchObject({ code: "invalid-option", lock: "free" });
  await expect(lose("free", "broken" as never)).rejects.toMatchObject({ code: "invalid-option" });
  await expect(clock.advance("soon" as never)).rejects.toMatchObject({ code: "invalid-option" });
  expect(() => outage(-1)).toThrow(expect.objectContaining({ code: "invalid-option" }));
  await locks.close();
});

test("it has the options of createLocks, and those of connect alone are refused in its own name", async () => {
  for (const option of ["prefix", "engine", "tll"]) {
    expect(() => createTestLocks({ [option]: "x" } as never)).toThrow(
      new RegExp(`^createTestLocks: there is no option "${option}"\\. Known are ttl, .*closeOnSignals\\.$`),
    );
  }
  expect(() => createTestLocks(5 as never)).toThrow(/^createTestLocks: /);
  const page = readFileSync(new URL("../../docs/guide/testing.md", import.meta.url), "utf8");
  const [, row = ""] = /^\| `locks` \| (.*) \|$/m.exec(page) ?? [];
  expect([...row.matchAll(/`(\w+)`/g)].map(([, name]) => name)).toEqual([...LOCKS_OPTIONS]);
});
