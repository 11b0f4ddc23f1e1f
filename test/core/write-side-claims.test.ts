import { createLocks } from "locktender";
import { memory } from "locktender/memory";
import { expect, onTestFinished, test } from "vitest";
import type { Backend } from "#lib/core/backend.js";

/** What is asked of an engine, but for the ids and tickets that differ from claim to claim. */
function recorded(): { readonly backend: Backend; readonly asked: unknown[] } {
  const store = memory();
  const asked: unknown[] = [];
  const backend: Backend = {
    traits: store.traits,
    claim(request) {
      const { id: _, ticket: __, ...rest } = request;
      asked.push(["claim", rest]);
      return store.claim(request);
    },
    renew: (claims) => store.renew(claims),
    release(claim, ending) {
      asked.push(["release", claim.name, ending]);
      return store.release(claim, ending);
    },
    list: (query) => store.list(query),
    watch: (claim, notify) => store.watch(claim, notify),
    close: () => store.close(),
  };
  return { backend, asked };
}

test("the write side makes the very claims that a mutex makes", async () => {
  const { backend, asked } = recorded();
  const locks = createLocks(backend);
  onTestFinished(() => locks.close());
  const options = { ttl: "3s", minHold: "1ms", note: "note", maxWaiters: 5 } as const;
  const ask = async (lock: { acquire(given: typeof options): Promise<{ release(): Promise<boolean> }> }) => {
    await (await lock.acquire(options)).release();
    return asked.splice(0);
  };
  const byMutex = await ask(locks.mutex("a"));
  expect(byMutex).toHaveLength(2);
  expect(await ask(locks.readWrite("a").write)).toEqual(byMutex);
});
