import { createLocks } from "locktender";
import { memory } from "locktender/memory";
import { expect, test } from "vitest";
import type { Backend, Notify } from "#lib/core/backend.js";

/** Memory, with a hand on the bells of its claims. */
function ringable(): { backend: Backend; rings: Notify[] } {
  const rings: Notify[] = [];
  const backend = memory();
  const watch = backend.watch.bind(backend);
  backend.watch = (claim, ring) => {
    rings.push(ring);
    return watch(claim, ring);
  };
  return { backend, rings };
}

test("a ring for an older ticket of the same process is not believed", async () => {
  const { backend, rings } = ringable();
  const locks = createLocks(backend);
  const holder = await locks.mutex("x").acquire();
  const waiting = locks.mutex("x").acquire({ wait: 300 });
  await expect.poll(async () => (await locks.inspect("x")).waiters.length).toBe(1);
  rings[1]?.({ state: "granted", ticket: holder.token / 1024n });
  await expect(waiting).rejects.toMatchObject({ code: "timeout" });
  expect(holder.held).toBe(true);
});

test("a ring that carries the current ticket is a grant, without another question", async () => {
  const { backend, rings } = ringable();
  const locks = createLocks(backend);
  await locks.mutex("x").acquire();
  const waiting = locks.mutex("x").acquire();
  await expect.poll(async () => (await locks.inspect("x")).waiters.length).toBe(1);
  const [waiter] = (await locks.inspect("x")).waiters;
  backend.claim = () => Promise.reject(new Error("nobody needs to ask"));
  rings[1]?.({ state: "granted", ticket: (waiter?.token ?? 0n) / 1024n });
  expect((await waiting).token).toBe(waiter?.token);
});

test("a fixed lease is not granted by a ring: its clock starts with the engine's answer", async () => {
  const { backend, rings } = ringable();
  const locks = createLocks(backend);
  await locks.mutex("x").acquire();
  const waiting = locks.mutex("x").acquire({ ttl: "5s", renew: false, wait: 300 });
  await expect.poll(async () => (await locks.inspect("x")).waiters.length).toBe(1);
  const [waiter] = (await locks.inspect("x")).waiters;
  rings[1]?.({ state: "granted", ticket: (waiter?.token ?? 0n) / 1024n });
  await expect(waiting).rejects.toMatchObject({ code: "timeout" });
});
