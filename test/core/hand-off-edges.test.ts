import { createLocks, type Lease, LockError, type LockTimeoutError } from "locktender";
import { memory } from "locktender/memory";
import { expect, onTestFinished, test } from "vitest";
import type { Backend, Notify } from "#lib/core/backend.js";
import { moveClock } from "#lib/core/clock.js";
import { passing } from "#lib/testing/suite/bench.js";

function open(backend: Backend, ttl: "1s" | "15s" = "1s") {
  const locks = createLocks(backend, { ttl });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

function gate(): readonly [Promise<void>, () => void] {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return [opened, open];
}

/** Memory that keeps the answer to one of the claims back, and whose processes are told nothing. */
function slow(which: number) {
  const store = memory();
  const [late, arrive] = gate();
  const ids: string[] = [];
  const backend: Backend = {
    ...passing(store),
    async claim(request) {
      const isLate = ids.push(request.id) === which;
      const answer = await store.claim(request);
      if (isLate) await late;
      return answer;
    },
    watch: () => () => {},
  };
  return { store, backend, ids, arrive };
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 20));

test("a grant that is older than a lease of the same process is not believed", async () => {
  const { store, backend, ids, arrive } = slow(1);
  const locks = open(backend);
  let isIn = false;
  const old = locks.mutex("a").acquire();
  void old.then(() => {
    isIn = true;
  });
  await expect.poll(() => ids.length).toBe(1);
  await store.release({ name: "a", id: ids[0] as string }, { reason: "test" });
  const newer = await locks.mutex("a", { fair: true }).acquire();
  arrive();
  await settled();
  expect([isIn, newer.held]).toEqual([false, true]);
  await newer.release();
  expect((await old).token).toBeGreaterThan(newer.token);
});

test("that a claim is gone is told to the task that holds it, though the task before it has asked", async () => {
  const { store, backend, ids, arrive } = slow(2);
  const mutex = open(backend).mutex("a");
  const first = await mutex.acquire();
  const waiting = mutex.acquire();
  await store.release({ name: "a", id: ids[0] as string }, { reason: "test" });
  const update = first.update({ note: "late" }).catch(() => undefined);
  await first.release();
  const second = await waiting;
  expect(second.held).toBe(true);
  arrive();
  await update;
  expect(second.held).toBe(false);
  expect(second.signal.reason).toMatchObject({ code: "lost", loss: "forced" });
});

test("a process that slept while its claim was idle gets a new one for the next task", async () => {
  const mutex = open(memory()).mutex("a", { sticky: "1s" });
  const before = await mutex.run(({ token }) => token);
  moveClock(5_000);
  const lease = await mutex.acquire();
  expect(lease.held).toBe(true);
  expect(lease.token / 1024n).toBeGreaterThan(before / 1024n);
});

test("the maxHold of a task does not limit the next one", async () => {
  const mutex = open(memory()).mutex("a");
  const first = await mutex.acquire({ maxHold: "1s" });
  const waiting = mutex.acquire();
  await first.release();
  const second = await waiting;
  expect(second.token).toBe(first.token + 1n);
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  expect(second.held).toBe(true);
});

test("hand-offs let timers run", async () => {
  const mutex = open(memory()).mutex("a");
  let done = 0;
  let doneAtTimer: number | undefined;
  const untilMs = (ms: number) => {
    const endMs = performance.now() + ms;
    while (performance.now() < endMs);
  };
  setTimeout(() => {
    doneAtTimer = done;
  }, 1);
  const work = () => {
    untilMs(1);
    done++;
  };
  await Promise.all(Array.from({ length: 60 }, () => mutex.run(work)));
  // Hand-offs may follow one another for 10 ms.
  expect(doneAtTimer).toBeLessThan(15);
});

test("a lock that is only tried is asked for while the claim of other tasks has no answer: an outage is no refusal", async () => {
  const store = memory();
  const backend: Backend = {
    ...passing(store),
    claim: () => Promise.reject(new LockError("backend", "away", { retryable: true })),
  };
  const mutex = open(backend).mutex("a");
  const waiting = mutex.acquire().catch(() => undefined);
  await settled();
  await expect(mutex.tryAcquire()).rejects.toMatchObject({ code: "backend" });
  void waiting;
});

test("a task that waits behind another task of its process is told which, and its position", async () => {
  const mutex = open(memory()).mutex("a");
  const holder = await mutex.acquire({ note: "import" });
  const first = mutex.acquire();
  const error = await mutex.acquire({ wait: 20 }).catch((error: LockTimeoutError) => error);
  expect(error).toMatchObject({ code: "timeout", position: 2, blockers: [{ token: holder.token }] });
  expect(String(error)).toContain('note "import"');
  await holder.release();
  await (await first).release();
});

test("a task that waits and holds another lock has a place in the server's queue, so that a deadlock is seen", async () => {
  const locks = open(memory());
  const [aHeld, aIsHeld] = gate();
  const [bHeld, bIsHeld] = gate();
  const plain: Promise<Lease>[] = [];
  const second = locks.mutex("b").run(async () => {
    bIsHeld();
    await aHeld;
    // It waits first, and holds nothing.
    plain.push(locks.mutex("a").acquire({ within: null }));
    await locks.mutex("a").run({ wait: "5s" }, () => undefined);
  });
  const first = locks.mutex("a").run(async () => {
    aIsHeld();
    await bHeld;
    plain.push(locks.mutex("b").acquire({ within: null }));
    await locks.mutex("b").run({ wait: 200 }, () => undefined);
  });
  const told = await first.catch((error: LockTimeoutError) => error);
  expect(told).toMatchObject({ code: "timeout", deadlock: [{}, {}] });
  for (const lease of plain) void lease.then((one) => one.release());
  await second;
});

test("a claim that had to wait is not kept idle, also if one before it was granted at once and taken away", async () => {
  const store = memory();
  const [late, arrive] = gate();
  let asked = 0;
  const backend: Backend = {
    ...passing(store),
    async claim(request) {
      const answer = await store.claim(request);
      if (++asked === 1) await late;
      return answer;
    },
  };
  const operator = open(store);
  const task = open(backend, "15s").mutex("a", { sticky: "10s" }).acquire();
  await expect.poll(() => asked).toBe(1);
  await operator.forceRelease("a", { reason: "before its answer has arrived" });
  const holder = await operator.mutex("a").acquire();
  arrive();
  await expect.poll(async () => (await operator.inspect("a")).waiters.length).toBe(1);
  // It enters behind the waiting claim, so the process of that one is not told.
  const next = open(store).mutex("a").acquire({ wait: "2s" });
  await holder.release();
  await (await task).release();
  expect((await next).held).toBe(true);
});

test("a task that leaves after the claim of all has failed takes nothing away from those that came later", async () => {
  const store = memory();
  const [looked, look] = gate();
  const ids: string[] = [];
  let isRefused = false;
  const backend: Backend = {
    ...passing(store),
    async claim(request) {
      ids.push(request.id);
      if (isRefused) throw new LockError("backend", "no permission");
      return store.claim(request);
    },
    async *list(query) {
      await looked;
      yield* store.list(query);
    },
  };
  const locks = open(backend);
  const other = await open(store).mutex("a").acquire();
  const leaving = locks.mutex("a").acquire({ wait: 20 });
  const told = expect(leaving).rejects.toMatchObject({ code: "timeout" });
  await new Promise((resolve) => setTimeout(resolve, 40));
  // It looks who holds the lock, to tell its caller. Meanwhile its claim is lost, and cannot be made again.
  isRefused = true;
  await store.release({ name: "a", id: ids[0] as string }, { reason: "test" });
  await expect.poll(() => ids.length).toBe(2);
  isRefused = false;
  await other.release();
  const lease = await locks.mutex("a").acquire();
  look();
  await told;
  const before = ids.length;
  expect(await locks.mutex("a").tryAcquire()).toBeNull();
  expect(ids.length, "a lock that this process holds is not asked for").toBe(before);
  await lease.release();
});

/** Without a queue the first to ask gets the lock. Waiters are told of each release. */
function unordered(): () => Backend {
  const store = memory();
  const watchers = new Set<Notify>();
  const soon = () => new Promise((resolve) => setTimeout(resolve, 1));
  return () => ({
    ...passing(store),
    traits: { ...store.traits, queueing: false },
    async claim(request) {
      await soon();
      const answer = await store.claim({ ...request, queue: false });
      return answer.state === "refused" ? { ...answer, againInMs: 1_000 } : answer;
    },
    async release(claim, ending) {
      await soon();
      const found = await store.release(claim, ending);
      for (const notify of watchers) setTimeout(() => notify(), Math.random() * 3);
      return found;
    },
    watch(_claim, notify) {
      watchers.add(notify);
      return () => watchers.delete(notify);
    },
  });
}

test("without a queue, a process with many tasks lets another one in", async () => {
  const process = unordered();
  const [busy, other] = [open(process()), open(process())];
  let isOver = false;
  const task = async () => {
    while (!isOver) await busy.mutex("a").run(() => new Promise((resolve) => setTimeout(resolve, 5)));
  };
  const tasks = [task(), task(), task()];
  try {
    for (let turn = 0; turn < 3; turn++) await other.mutex("a").run({ wait: "8s" }, () => undefined);
  } finally {
    isOver = true;
    await Promise.all(tasks);
  }
});
