import { createLocks, type LocksOptions } from "locktender";
import { memory } from "locktender/memory";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Backend, Notify } from "#lib/core/backend.js";

/** Memory as an engine that keeps no queue: a refused caller is told to ask again, and the test notifies it. */
function withoutQueue(againInMs: number): {
  readonly backend: Backend;
  readonly notifyAll: () => void;
  readonly asked: () => number;
} {
  const store = memory();
  const watchers = new Set<Notify>();
  let asked = 0;
  const backend: Backend = {
    traits: { ...store.traits, engine: "queueless", queueing: false },
    async claim(request) {
      const answer = await store.claim({ ...request, queue: false });
      // Only now: what is asked for while a holder leaves may be answered before or after that.
      asked++;
      return answer.state === "refused" && request.queue ? { ...answer, againInMs } : answer;
    },
    renew: (claims) => store.renew(claims),
    release: (claim, ending) => store.release(claim, ending),
    list: (query) => store.list(query),
    watch(_, notify) {
      watchers.add(notify);
      return () => void watchers.delete(notify);
    },
    close: () => store.close(),
  };
  return {
    backend,
    asked: () => asked,
    notifyAll: () => {
      for (const notify of watchers) notify();
    },
  };
}

function open(engine: { readonly backend: Backend }, options: LocksOptions = {}) {
  const locks = createLocks(engine.backend, options);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

describe("at an engine without a queue", () => {
  test("a waiter asks again when it was told to, and gets in", async () => {
    const engine = withoutQueue(20);
    const holder = await open(engine).mutex("a").acquire();
    const waiting = open(engine).mutex("a").acquire();
    await new Promise((resolve) => setTimeout(resolve, 100));
    await holder.release();
    expect((await waiting).token).toBeGreaterThan(holder.token);
    expect(engine.asked()).toBeGreaterThan(2);
    // One for the holder, and at most one in 20 ms; far fewer than a loop without a pause would make.
    expect(engine.asked()).toBeLessThan(50);
  });

  test("a waiter asks at once when it is notified", async () => {
    const engine = withoutQueue(60_000);
    const holder = await open(engine).mutex("a").acquire();
    const waiting = open(engine).mutex("a").acquire();
    await expect.poll(engine.asked).toBe(2);
    await holder.release();
    engine.notifyAll();
    expect((await waiting).held).toBe(true);
    expect(engine.asked()).toBe(3);
  });

  test("a wait that is over is a timeout that says who holds the lock, and a cancelled one ends at once", async () => {
    const engine = withoutQueue(60_000);
    const holder = await open(engine, { owner: { service: "till" } })
      .mutex("a")
      .acquire();
    const mutex = open(engine).mutex("a");
    const error = await mutex.acquire({ wait: 50 }).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: "timeout",
      position: undefined,
      blockers: [{ token: holder.token }],
    });
    const controller = new AbortController();
    const waiting = mutex.acquire({ signal: controller.signal, wait: Infinity });
    await expect.poll(engine.asked).toBe(3);
    controller.abort(new Error("changed my mind"));
    await expect(waiting).rejects.toThrow("changed my mind");
    expect(await mutex.tryAcquire()).toBeNull();
  });

  test("what only a queue can promise is refused, with the reason", () => {
    const engine = withoutQueue(20);
    const locks = open(engine);
    const unsupported = expect.objectContaining({ code: "unsupported" });
    expect(() => locks.mutex("a", { fair: true })).toThrow(unsupported);
    expect(() => locks.mutex("a", { maxWaiters: 3 })).toThrow(/maxWaiters: queueless keeps no queue/);
    expect(() => createLocks(engine.backend, { require: { queueing: true } })).toThrow(unsupported);
    expect(locks.mutex("a", { fair: false }).name).toBe("a");
  });
});
