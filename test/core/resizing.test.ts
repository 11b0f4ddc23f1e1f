import { createLocks } from "locktender";
import { memory } from "locktender/memory";
import { expect, onTestFinished, test } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { backendError } from "#lib/core/errors.js";

/** Memory, with something that is done otherwise. */
function otherwise(store: Backend, change: Partial<Backend>): Backend {
  return new Proxy(store, {
    get: (_, key) => {
      const value = Reflect.get(key in change ? change : store, key);
      return typeof value === "function" ? value.bind(store) : value;
    },
  });
}

function open(backend: Backend, options = {}) {
  const locks = createLocks(backend, options);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

test("a resize ends when its time is over, also if the number is another one each time", async () => {
  let asked = 0;
  const claim = async () => {
    await new Promise(setImmediate);
    return { state: "capacity-mismatch" as const, capacity: 5 + (++asked % 2) };
  };
  const locks = open(otherwise(memory(), { claim }));
  await expect(locks.semaphore("x").resize(3, { wait: 50 })).rejects.toMatchObject({ code: "timeout" });
  expect(asked).toBeGreaterThan(1);
});

test("a resize that has lost its place takes no permit away from holders that were let in meanwhile", async () => {
  const other = open(memory("lost while resizing"));
  const store = memory("lost while resizing");
  let letIn: Promise<{ readonly held: boolean }> | undefined;
  const locks = open(
    otherwise(store, {
      // It stands still between seeing the waiters and sending them away, for longer than its ttl.
      async *list(query) {
        for await (const record of store.list(query)) {
          if (letIn !== undefined && !("limit" in query)) await letIn;
          yield record;
        }
      },
      renew: () => Promise.reject(backendError("no answer", { retryable: true })),
    }),
    { ttl: 200 },
  );
  const holder = await other.semaphore("x", 2).acquire();
  const resizing = locks.semaphore("x", 2).resize(4, { wait: "5s" });
  resizing.catch(() => undefined);
  while ((await other.inspect("x")).waiters.length < 1) await new Promise(setImmediate);
  letIn = other.semaphore("x").acquire();
  while ((await other.inspect("x")).waiters.length < 2) await new Promise(setImmediate);
  await holder.release();
  const lease = await letIn;
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(lease.held).toBe(true);
});

test("a caller that takes a number over and is called off, or too late, is told that, and nothing about the number", async () => {
  const locks = createLocks(memory());
  const reason = new Error("changed my mind");
  await expect(locks.semaphore("x").acquire({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  await locks.close();
  await expect(locks.semaphore("x").acquire()).rejects.toMatchObject({ code: "closed" });
});

test("a caller that asks while the number is being changed takes over the new one, and does not bring back the old", async () => {
  let asked = 0;
  const [store, own] = [memory("newcomers"), memory("newcomers")];
  const other = open(
    otherwise(store, {
      claim: (request) => {
        asked++;
        return store.claim(request);
      },
    }),
  );
  let newcomer: Promise<unknown> | undefined;
  let turns = 0;
  const locks = open(
    otherwise(own, {
      async release(claim, ending) {
        if (ending === undefined && ++turns === 1) {
          const before = asked;
          newcomer = other.semaphore("x").acquire();
          while (asked === before) await new Promise(setImmediate);
        }
        return own.release(claim, ending);
      },
    }),
  );
  const holder = await other.semaphore("x", 2).acquire();
  const resizing = locks.semaphore("x").resize(4);
  while ((await other.inspect("x")).waiters.length < 1) await new Promise(setImmediate);
  await holder.release();
  await resizing;
  await newcomer;
  expect(turns).toBe(1);
  expect((await other.inspect("x")).permits).toBe(4);
});

test("what is stored as a number of permits, and is none, counts as nothing", async () => {
  const locks = createLocks(memory());
  onTestFinished(() => locks.close());
  for (const stored of [null, 5, {}, { permits: 0 }, { permits: 1.5 }, { permits: "3" }]) {
    await locks.cell("a:\\permits").write(stored);
    await expect(locks.semaphore("a").acquire()).rejects.toThrow("its size was never set");
  }
});

test("a misspelt option of a permit is answered with those that there are, weight among them", async () => {
  const locks = createLocks(memory());
  onTestFinished(() => locks.close());
  const misspelt = { wieght: 2 } as object;
  await expect(locks.semaphore("a", 2).acquire(misspelt)).rejects.toThrow(/"wieght"\. Known are weight, /);
});
