import { createLocks } from "locktender";
import { memory } from "locktender/memory";
import { expect, onTestFinished, test } from "vitest";
import type { Backend, ResourceRecord } from "#lib/core/backend.js";

test("many waiters that give up at the same moment look together at who waits for whom", async () => {
  const store = memory();
  let looks = 0;
  const counting: Backend = new Proxy(store, {
    get: (_, key) => {
      const value = Reflect.get(store, key);
      if (key !== "list") return typeof value === "function" ? value.bind(store) : value;
      return async function* (query: Parameters<Backend["list"]>[0]) {
        looks++;
        await new Promise((resolve) => setTimeout(resolve, 5));
        yield* store.list(query);
      };
    },
  });
  const locks = createLocks(counting);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  await locks.mutex("shared").acquire();
  const jobs = Array.from({ length: 100 }, (_, index) =>
    locks.mutex(`job ${index}`).run(() => locks.mutex("shared").acquire({ wait: 300 })),
  );
  const told = await Promise.allSettled(jobs);
  for (const job of told) expect(job).toMatchObject({ status: "rejected", reason: { code: "timeout" } });
  // Each by itself would have looked at fifty names.
  expect(looks).toBeLessThan(1_000);
});

test("a deadlock is told also of a chain that takes very many locks as one", async () => {
  const locks = createLocks(memory());
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  const many = Array.from({ length: 20 }, (_, index) => locks.mutex(`a:${index}`));
  const [last, outer] = [locks.mutex("b"), locks.mutex("c")];
  const taking = outer.run(() => locks.all([...many, last]).run({ wait: "30s" }, () => undefined));
  const told = await last.run(async () => {
    while ((await locks.inspect("b")).waiters.length === 0) await new Promise(setImmediate);
    return outer.acquire({ wait: 50 }).catch((error: unknown) => error);
  });
  expect(told).toMatchObject({ code: "timeout", deadlock: [{ holds: "c" }, { holds: "b" }] });
  await taking;
});

test("a waiter that gives up while another one looks is told of what was there when it gave up", async () => {
  const slow = memory("seen");
  const { list } = slow;
  let begun = () => {};
  const looking = new Promise<void>((resolve) => {
    begun = resolve;
  });
  slow.list = async function* (query) {
    const records: ResourceRecord[] = [];
    for await (const record of list.call(slow, query)) records.push(record);
    begun();
    await new Promise((resolve) => setTimeout(resolve, 50));
    yield* records;
  };
  const [locks, others] = [createLocks(slow), createLocks(memory("seen"))];
  onTestFinished(async () => {
    await Promise.all([locks.close(), others.close()]);
  });
  const messageOf = (error: Error) => error.message;
  const first = await others.mutex("a").acquire({ note: "the first" });
  const one = locks.mutex("a").acquire({ wait: 0 }).catch(messageOf);
  await looking;
  await first.release();
  await others.mutex("a").acquire({ note: "the second" });
  const two = locks.mutex("a").acquire({ wait: 0 }).catch(messageOf);
  expect(await one).toContain("the first");
  expect(await two).toContain("the second");
});
