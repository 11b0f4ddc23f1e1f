import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type Lease, type LockTimeoutError } from "locktender";
import { memory } from "locktender/memory";
import { expect, onTestFinished, test } from "vitest";
import type { Backend, Ending } from "#lib/core/backend.js";
import { passing } from "#lib/testing/suite/bench.js";

// What claims that several tasks share, or that stay with their process, must not do to other tasks.

const HOLD_MS = 50;

function open(backend: Backend, ttl: "1s" | "3s" = "3s") {
  const locks = createLocks(backend, { ttl });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

/** Memory whose messages `wanted` are lost. */
function withoutWanted(store = memory()): Backend {
  return {
    ...passing(store),
    watch: (claim, notify) =>
      store.watch(claim, (notification) => {
        if (notification?.state !== "wanted") notify(notification);
      }),
  };
}

test("a lock is not handed to a task whose signal has aborted, also if the holder hears of the abort first", async () => {
  const mutex = open(memory()).mutex("a");
  const caller = new AbortController();
  const holder = await mutex.acquire();
  caller.signal.addEventListener("abort", () => void holder.release());
  let hasRun = false;
  const waiting = mutex.run({ signal: caller.signal }, () => {
    hasRun = true;
  });
  caller.abort(new Error("enough"));
  await expect(waiting).rejects.toThrow("enough");
  expect(hasRun).toBe(false);
});

test("a lock that is only tried is not refused because of an idle claim of the same process", async () => {
  const store = memory();
  // As on an engine that carries out a release and a claim side by side: there the claim may be the faster one.
  const slow: Backend = {
    ...passing(store),
    async release(claim, ending) {
      await sleep(5);
      return store.release(claim, ending);
    },
  };
  const locks = open(slow);
  await locks.mutex("a", { sticky: "2s" }).run(() => {});
  const lease = await locks.mutex("a").tryAcquire({ ttl: "1s" });
  expect(lease).not.toBeNull();
});

test("an idle claim does not keep a task with another ttl waiting, also if no message arrives", async () => {
  const locks = open(withoutWanted());
  await locks.mutex("a", { sticky: "3s" }).run(() => {});
  const startMs = performance.now();
  await locks.mutex("a").run({ ttl: "1s" }, () => {});
  expect(performance.now() - startMs).toBeLessThan(500);
});

test("a wait behind a lock that was handed on is no deadlock", async () => {
  const locks = open(memory());
  const [a, b] = [locks.mutex("a"), locks.mutex("b")];
  let stray: Promise<Lease> | undefined;
  const ofB = b.run({ within: null }, async () => {
    await sleep(2 * HOLD_MS);
    return a.acquire({ wait: HOLD_MS }).catch((error: LockTimeoutError) => error);
  });
  await sleep(5);
  // It leaves a wait behind that outlives it, and holds nothing by then.
  const first = a.run({ within: null }, async () => {
    await sleep(HOLD_MS / 2);
    stray = b.acquire();
    await sleep(HOLD_MS / 2);
  });
  const second = a.run({ within: null }, () => sleep(4 * HOLD_MS));
  const error = await ofB;
  await Promise.all([first, second]);
  await (await stray)?.release();
  expect(error).toMatchObject({ code: "timeout", deadlock: undefined });
});

test("a lock that is only tried, and is in use as a semaphore of this process, is that error", async () => {
  const locks = open(memory());
  const permit = await locks.semaphore("a", 1).acquire();
  await expect(locks.mutex("a").tryAcquire()).rejects.toMatchObject({ code: "capacity-mismatch" });
  await permit.release();
});

test("a task that has worked is not released as one that has not, after a task before it came to nothing", async () => {
  const store = memory();
  const endings: (Ending | undefined)[] = [];
  const locks = open({
    ...passing(store),
    release(claim, ending) {
      if (claim.name === "a") endings.push(ending);
      return store.release(claim, ending);
    },
  });
  const b = await locks.mutex("b").acquire();
  const both = locks.all([locks.mutex("a"), locks.mutex("b")]).acquire({ wait: HOLD_MS });
  const working = locks.mutex("a").run(() => sleep(1));
  await expect(both).rejects.toMatchObject({ code: "timeout" });
  await working;
  await b.release();
  expect(endings).toEqual([undefined]);
});

test("servers whose tokens have gone back are not asked in a loop without pauses", async () => {
  let store = memory();
  let backUs = 0n;
  let asked = 0;
  const restored: Backend = {
    ...passing(store),
    async claim(request) {
      asked++;
      const { ticket } = request;
      const answer = await store.claim({ ...request, ticket: ticket && ticket + backUs });
      return "ticket" in answer ? { ...answer, ticket: answer.ticket - backUs } : answer;
    },
    renew: (claims) => store.renew(claims.map((claim) => ({ ...claim, ticket: claim.ticket + backUs }))),
    release: (claim, ending) => store.release(claim, ending),
    list: (query) => store.list(query),
    watch: () => () => {},
  };
  const locks = open(restored, "1s");
  await locks.mutex("a").acquire();
  [store, backUs, asked] = [memory(), 10_000_000_000_000n, 0];
  await locks.mutex("a", { fair: true }).acquire();
  expect(asked).toBeLessThan(1_000);
});

test("others see within a little more than a second which task holds", async () => {
  const locks = open(memory("shown"), "3s");
  const other = open(memory("shown"), "3s");
  const mutex = locks.mutex("a");
  const tasks = [10, 70, 2_500].map((ms) => mutex.run({ note: `for ${ms} ms` }, () => sleep(ms)));
  await Promise.all(tasks.slice(0, 2));
  await sleep(1_400);
  const shown = await other.inspect("a");
  await tasks[2];
  expect(shown.holders).toMatchObject([{ note: "for 2500 ms" }]);
});

test("a call that failed at once is granted nothing afterwards", async () => {
  const store = memory();
  let isBroken = true;
  const locks = open({
    ...passing(store),
    watch(claim, notify) {
      if (isBroken) throw new Error("broken");
      return store.watch(claim, notify);
    },
  });
  const mutex = locks.mutex("a");
  await expect(mutex.acquire()).rejects.toThrow("broken");
  isBroken = false;
  const lease = await mutex.acquire({ wait: 500 });
  expect(lease.held).toBe(true);
});

test("a run that ends while the engine is asked why its claim is gone rejects with the true reason", async () => {
  const store = memory();
  const locks = open({
    ...passing(store),
    // The news that it was forced is lost, and the answer takes its time.
    watch: (claim, notify) =>
      store.watch(claim, (notification) => {
        if (notification?.state !== "gone") notify(notification);
      }),
    async renew(claims) {
      await sleep(HOLD_MS);
      return store.renew(claims);
    },
  });
  const mutex = locks.mutex("a", { fair: true });
  let next: Promise<Lease> | undefined;
  const running = mutex.run(async () => {
    next = mutex.acquire({ within: null });
    await sleep(HOLD_MS);
    await open(store).forceRelease("a", { reason: "stuck" });
    await next;
  });
  await expect(running).rejects.toMatchObject({ code: "lost", loss: "forced", reason: "stuck" });
  await (await next)?.release();
});

test("a try that is cancelled while an idle claim is given back for it is granted nothing", async () => {
  const store = memory();
  const locks = open({
    ...passing(store),
    async release(claim, ending) {
      await sleep(HOLD_MS);
      return store.release(claim, ending);
    },
  });
  await locks.mutex("a", { sticky: "2s" }).run(() => {});
  const caller = new AbortController();
  const trying = locks.mutex("a").tryAcquire({ ttl: "1s", signal: caller.signal });
  caller.abort(new Error("enough"));
  await expect(trying).rejects.toThrow("enough");
});
