import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type LockEvent, type LocksOptions } from "locktender";
import { memory } from "locktender/memory";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { backendError } from "#lib/core/errors.js";

const unhandled: unknown[] = [];
const onUnhandled = (reason: unknown) => void unhandled.push(reason);
beforeEach(() => {
  unhandled.length = 0;
  process.on("unhandledRejection", onUnhandled);
});
afterEach(async () => {
  await sleep(5);
  process.off("unhandledRejection", onUnhandled);
  expect(unhandled).toEqual([]);
});

/** Memory in which one operation can be made to fail. */
function breakable(locksOptions: LocksOptions = {}) {
  const backend = memory();
  const events: LockEvent[] = [];
  const locks = createLocks(backend, { ...locksOptions, onEvent: (event) => events.push(event) });
  const working: Backend = Object.assign(
    Object.create(Object.getPrototypeOf(backend) as object) as Backend,
    {},
  );
  for (const key of ["claim", "renew", "release", "list", "watch"] as const) {
    Object.assign(working, { [key]: backend[key].bind(backend) });
  }
  const types = () => events.map(({ type }) => type);
  return { backend, working, locks, events, types };
}

const TROUBLES: Readonly<Record<string, () => Promise<never>>> = {
  "an error of the engine": () => Promise.reject(backendError("down", { retryable: true })),
  "an error of a library": () => Promise.reject(new TypeError("x is not a function")),
  nothing: () => Promise.reject(undefined),
  "a text": () => Promise.reject("text"),
  "an exception before any promise": () => {
    throw new Error("at once");
  },
};

describe("a renewal that fails", () => {
  test("is an event, is tried again, and costs nothing if it passes, whatever it fails with", async () => {
    const outcomes = Object.entries(TROUBLES).map(async ([name, trouble]) => {
      const { backend, working, locks, types } = breakable({ ttl: 400 });
      const lease = await locks.mutex("x").acquire();
      backend.renew = trouble;
      await expect.poll(types, { interval: 5 }).toContain("renew-failed");
      backend.renew = working.renew;
      await sleep(600);
      expect(lease.held, name).toBe(true);
      expect(types(), name).not.toContain("lost");
    });
    await Promise.all(outcomes);
  });

  test("until the deadline is a loss, told once and in time, and the run says so", async () => {
    const { backend, locks, types } = breakable({ ttl: 300 });
    backend.renew = () => Promise.reject(new Error("down"));
    const startedAt = performance.now();
    const run = locks.mutex("x").run(async ({ signal }) => {
      while (!signal.aborted) await sleep(5);
      return performance.now() - startedAt;
    });
    await expect(run).rejects.toMatchObject({ code: "lost", loss: "expired" });
    expect(types().filter((type) => type === "lost")).toHaveLength(1);
    expect(types().filter((type) => type === "renew-failed").length).toBeGreaterThan(1);
  });

  test("because its process was stopped for too long is told as that, also if the answer is read before a timer", async () => {
    const { backend, working, locks } = breakable({ ttl: 300 });
    const lease = await locks.mutex("x").acquire();
    backend.renew = (claims) => {
      for (const untilMs = performance.now() + 800; performance.now() < untilMs; );
      return working.renew(claims);
    };
    await expect.poll(() => lease.signal.aborted, { interval: 5 }).toBe(true);
    expect(lease.signal.reason).toMatchObject({ code: "lost", loss: "paused" });
  });

  test("for one lock for good does not cost the others of its batch theirs", async () => {
    const { backend, working, locks } = breakable({ ttl: 300 });
    const leases = await Promise.all(["a", "b", "poisoned", "c"].map((name) => locks.mutex(name).acquire()));
    backend.renew = (claims) =>
      claims.some(({ name }) => name === "poisoned")
        ? Promise.reject(backendError("WRONGTYPE", { retryable: false }))
        : working.renew(claims);
    await sleep(700);
    expect(leases.map((lease) => lease.held)).toEqual([true, true, false, true]);
  });

  test("and never answers is a loss at the deadline, and closing does not wait for it", async () => {
    const { backend, locks } = breakable({ ttl: 200 });
    const lease = await locks.mutex("x").acquire();
    backend.renew = () => new Promise(() => {});
    await expect.poll(() => lease.signal.aborted).toBe(true);
    expect(lease.signal.reason).toMatchObject({ loss: "expired" });
    await locks.close();
  });
});

describe("an engine that does not answer", () => {
  test("is an error of the engine and no timeout, also if the first answer took longer than the wait", async () => {
    const { backend, locks } = breakable();
    backend.claim = async () => {
      await sleep(150);
      throw backendError("no answer within 150 ms", { retryable: true });
    };
    await expect(locks.mutex("x").acquire({ wait: 50 })).rejects.toMatchObject({ code: "backend" });
    await expect(locks.mutex("x").acquire({ wait: 400 })).rejects.toMatchObject({ code: "backend" });
    await expect(locks.mutex("x").tryAcquire()).rejects.toMatchObject({ code: "backend" });
  });

  test("at a release is tried again, and then an event for run and an error for release", async () => {
    const { backend, working, locks, types } = breakable();
    backend.release = () => Promise.reject(backendError("down", { retryable: true }));
    expect(await locks.mutex("x").run(() => "done")).toBe("done");
    expect(types()).toContain("release-failed");
    const lease = await locks.mutex("y").acquire();
    await expect(lease.release()).rejects.toMatchObject({ code: "backend" });
    const disposed = await locks.mutex("z").acquire();
    await disposed[Symbol.asyncDispose]();
    backend.release = working.release;
  });

  test("when a wait is over is told as an outage, never as contention", async () => {
    const { backend, locks } = breakable();
    await locks.mutex("x").acquire();
    // biome-ignore lint/correctness/useYield: it fails before it has anything to yield
    backend.list = async function* () {
      throw new Error("down");
    };
    await expect(locks.mutex("x").acquire({ wait: 20 })).rejects.toMatchObject({
      code: "backend",
    });
  });
});

describe("an answer that was long under way", () => {
  /** It arrives just after a beat of the watchdog, and before the next one what it gave is over. */
  function slow(ttlMs: number) {
    const made = breakable({ ttl: ttlMs });
    made.backend.claim = async (request) => {
      const answer = await made.working.claim(request);
      await sleep(ttlMs * 0.7);
      return answer;
    };
    return made;
  }

  test("gives a lease that is renewed in time", async () => {
    const { locks, types } = slow(1_500);
    const lease = await locks.mutex("x").acquire();
    await sleep(1_500);
    expect([lease.held, types()]).toEqual([true, ["acquired"]]);
  });

  test("gives a place that is kept", async () => {
    const { locks, types } = slow(1_500);
    const holder = await locks.mutex("x").acquire({ ttl: "60s" });
    const waiting = locks.mutex("x").acquire();
    await sleep(3_000);
    expect(types()).not.toContain("queue-position-lost");
    await holder.release();
    expect((await waiting).held).toBe(true);
  });
});
