import { createLocks, LockError, type LocksOptions } from "locktender";
import { memory } from "locktender/memory";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Backend, Notify } from "#lib/core/backend.js";
import { passing } from "#lib/testing/suite/bench.js";

function open(backend: Backend, options: LocksOptions = {}) {
  const locks = createLocks(backend, options);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

/** Memory that writes down what it is asked. */
function recording(store = memory()): { readonly backend: Backend; readonly asked: string[] } {
  const asked: string[] = [];
  const backend: Backend = {
    ...passing(store),
    claim(request) {
      asked.push(`claim ${request.note}`);
      return store.claim(request);
    },
    release(claim, ending) {
      asked.push("release");
      return store.release(claim, ending);
    },
  };
  return { backend, asked };
}

/** A task that waits since an outage began, which has just ended; from now on an answer takes so long. */
async function intoOutage(answerMs: number) {
  const store = memory();
  let isAway = true;
  const backend: Backend = {
    ...passing(store),
    async claim(request) {
      if (isAway) throw new LockError("backend", "away", { retryable: true });
      if (answerMs > 0) await new Promise((resolve) => setTimeout(resolve, answerMs));
      return store.claim(request);
    },
  };
  const mutex = open(backend, { ttl: "10s" }).mutex("a");
  const first = mutex.acquire();
  // By now the pauses between its questions are long.
  await vi.advanceTimersByTimeAsync(3_000);
  isAway = false;
  return { mutex, first };
}

test.each([{}, { sticky: "1s" } as const])(
  "of tasks that come together, one that is not served has its time limit, %o",
  async (options) => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const mutex = open(memory()).mutex("a", options);
    const first = mutex.acquire();
    const told = mutex.acquire({ wait: 50 }).catch((error: unknown) => error);
    const isOver = vi.fn();
    void told.then(isOver);
    // At the end of the budget, after 100 ms, every task that still waits looks at the time: that is too late.
    await vi.advanceTimersByTimeAsync(51);
    expect(isOver).toHaveBeenCalledOnce();
    expect(await told).toMatchObject({ code: "timeout" });
    expect((await first).held).toBe(true);
  },
);

test("a hand-off costs no request, and each task has a token of its own", async () => {
  // Time stands still, or a busy machine would use up the budget.
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { backend, asked } = recording();
  const mutex = open(backend).mutex("a");
  const tokens: bigint[] = [];
  await Promise.all(Array.from({ length: 50 }, () => mutex.run(({ token }) => void tokens.push(token))));
  expect(asked).toEqual(["claim ", "release"]);
  expect(tokens).toEqual(Array.from({ length: 50 }, (_, index) => (tokens[0] ?? 0n) + BigInt(index)));
});

test("an idle claim that stands in the way is given back before the next claim is sent", async () => {
  const { backend, asked } = recording();
  const locks = open(backend);
  await locks.mutex("a", { sticky: "10s" }).run(() => undefined);
  await locks.readWrite("a").read.run(() => undefined);
  expect(asked.slice(0, 3)).toEqual(["claim ", "release", "claim "]);
});

test("the note of a task that left before the grant does not stay at the claim of the next one", async () => {
  const store = memory();
  const mutex = open(store).mutex("a");
  const other = await open(store).mutex("a").acquire();
  const leaving = mutex.acquire({ note: "leaves", wait: 100 }).catch((error: unknown) => error);
  const staying = mutex.acquire({ note: "stays" });
  await leaving;
  await other.release();
  const lease = await staying;
  await expect
    .poll(async () => (await open(store).inspect("a")).holders.map(({ note }) => note), { timeout: 5_000 })
    .toEqual(["stays"]);
  await lease.release();
});

test("a task that comes after an outage is not told of it: its process asks at once", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { mutex, first } = await intoOutage(0);
  const second = mutex.acquire({ wait: 10 });
  await vi.advanceTimersByTimeAsync(0);
  await (await first).release();
  await (await second).release();
});

test.each([
  ["is answered", "gets the lock", true],
  ["fails, too", "is told of the outage", false],
])(
  "the outage that a task comes into is not its own before a question of its own %s: then it %s",
  async (_, __, isBack) => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const store = memory();
    let asked = 0;
    const backend: Backend = {
      ...passing(store),
      async claim(request) {
        // So long a question takes: longer than the task that comes is willing to wait.
        if (++asked > 3) await new Promise((resolve) => setTimeout(resolve, 50));
        if (asked <= 4 || !isBack) throw new LockError("backend", "away", { retryable: true });
        return store.claim(request);
      },
    };
    const mutex = open(backend, { ttl: "10s" }).mutex("a");
    const aborted = new AbortController();
    const first = mutex.acquire({ signal: aborted.signal }).catch((error: unknown) => error);
    while (asked < 4) await vi.advanceTimersByTimeAsync(1);
    // The fourth question is under way, and will fail.
    await vi.advanceTimersByTimeAsync(1);
    const second = mutex.acquire({ wait: 10 }).catch((error: unknown) => error);
    aborted.abort(new Error("gone"));
    const settled = vi.fn();
    void second.then(settled);
    await vi.advanceTimersByTimeAsync(60);
    expect(settled).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(60);
    expect(asked).toBe(5);
    expect(await second).toMatchObject(isBack ? { held: true } : { code: "backend" });
    expect(await first).toMatchObject({ message: "gone" });
  },
);

test("a task that comes into an outage, and then waits behind another task, is told of that one", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { mutex, first } = await intoOutage(50);
  const second = mutex.acquire({ wait: 10 }).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(60);
  expect(await second).toMatchObject({ code: "timeout", blockers: [{ token: (await first).token }] });
  await (await first).release();
});

test.each([
  ["for this ticket, it is given back after its task", 0n, undefined],
  ["for an older ticket, it stays", -1n, "idle"],
])("a sticky claim that is wanted before its own answer has come: %s", async (_, offset, stays) => {
  const store = memory();
  const notifiers = new Map<string, Notify>();
  const backend: Backend = {
    ...passing(store),
    watch(claim, notify) {
      notifiers.set(claim.id, notify);
      return store.watch(claim, notify);
    },
    async claim(request) {
      const answer = await store.claim(request);
      if ("ticket" in answer)
        notifiers.get(request.id)?.({ state: "wanted", ticket: answer.ticket + offset });
      return answer;
    },
  };
  const locks = open(backend);
  await locks.mutex("a", { sticky: "10s" }).run(() => undefined);
  expect((await locks.inspect("a")).holders[0]?.sticky).toBe(stays);
});
