import { createLocks } from "locktender";
import { memory } from "locktender/memory";
import { expect, test } from "vitest";
import type { Backend, Notify } from "#lib/core/backend.js";

/** Memory, and the callbacks by which it notifies its claims. */
function notifiable(): { backend: Backend; notifiers: Notify[] } {
  const notifiers: Notify[] = [];
  const backend = memory();
  const watch = backend.watch.bind(backend);
  backend.watch = (claim, notify) => {
    notifiers.push(notify);
    return watch(claim, notify);
  };
  return { backend, notifiers };
}

test("a notification for an older ticket of the same process is not believed", async () => {
  const { backend, notifiers } = notifiable();
  const locks = createLocks(backend);
  const holder = await locks.mutex("x").acquire();
  const waiting = locks.mutex("x").acquire({ wait: 300 });
  await expect.poll(async () => (await locks.inspect("x")).waiters.length).toBe(1);
  notifiers[1]?.({ state: "granted", ticket: holder.token / 1024n });
  await expect(waiting).rejects.toMatchObject({ code: "timeout" });
  expect(holder.held).toBe(true);
});

test("a notification that carries the current ticket is a grant, without another question", async () => {
  const { backend, notifiers } = notifiable();
  const locks = createLocks(backend);
  await locks.mutex("x").acquire();
  const waiting = locks.mutex("x").acquire();
  await expect.poll(async () => (await locks.inspect("x")).waiters.length).toBe(1);
  const [waiter] = (await locks.inspect("x")).waiters;
  backend.claim = () => Promise.reject(new Error("no waiter needs to ask"));
  notifiers[1]?.({ state: "granted", ticket: (waiter?.token ?? 0n) / 1024n });
  expect((await waiting).token).toBe(waiter?.token);
});

test("a fixed lease is not granted by a notification: its clock starts with the engine's answer", async () => {
  const { backend, notifiers } = notifiable();
  const locks = createLocks(backend);
  await locks.mutex("x").acquire();
  const waiting = locks.mutex("x").acquire({ ttl: "5s", renew: false, wait: 300 });
  await expect.poll(async () => (await locks.inspect("x")).waiters.length).toBe(1);
  const [waiter] = (await locks.inspect("x")).waiters;
  notifiers[1]?.({ state: "granted", ticket: (waiter?.token ?? 0n) / 1024n });
  await expect(waiting).rejects.toMatchObject({ code: "timeout" });
});
