import { createLocks, type Lease } from "locktender";
import { memory } from "locktender/memory";
import { describe, expect, test } from "vitest";

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe("close", () => {
  test("at any moment of a grant, lets no second holder in beside a callback", async () => {
    for (let microtasks = 0; microtasks < 12; microtasks++) {
      const [first, second] = [createLocks(memory("closing")), createLocks(memory("closing"))];
      let inside = 0;
      const work = async () => {
        expect(++inside).toBe(1);
        await sleep(5);
        inside--;
      };
      const run = first.mutex("x").run(work);
      run.catch(() => undefined);
      for (let turn = 0; turn < microtasks; turn++) await Promise.resolve();
      const closed = first.close();
      await second.mutex("x").run(work);
      await closed;
      await second.close();
    }
  });

  test("gives back a lease of acquire after the callback that entered by it has ended", async () => {
    const [locks, other] = [createLocks(memory("entered")), createLocks(memory("entered"))];
    const lease = await locks.mutex("x").acquire();
    const run = locks
      .mutex("x")
      .run(
        { within: lease },
        ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", resolve)),
      );
    run.catch(() => undefined);
    await locks.close({ drain: 20, abort: "5s" });
    expect(await other.mutex("x").tryAcquire()).not.toBeNull();
  });
});

describe("a loss", () => {
  test("is told also to a holder that overran and gave back in the same turn", async () => {
    const types: string[] = [];
    const locks = createLocks(memory(), { onEvent: ({ type }) => types.push(type) });
    const lease = await locks.mutex("x").acquire({ ttl: 50, renew: false });
    const { signal } = lease;
    for (const until = performance.now() + 400; performance.now() < until; );
    expect(await lease.release()).toBe(false);
    expect(signal.reason).toMatchObject({ loss: "paused" });
    expect(types).toContain("lost");
  });

  test("ends the wait of siblings for their turn", async () => {
    const locks = createLocks(memory());
    const mutex = locks.mutex("x", { reentrant: true });
    const run = mutex.run(async () => {
      const slow = mutex.run(() => sleep(300));
      const waiting = mutex.acquire({ wait: Infinity });
      setTimeout(() => void locks.forceRelease("x", { reason: "test" }), 20);
      await expect(waiting).rejects.toMatchObject({ code: "lost", loss: "forced" });
      await slow.catch(() => undefined);
    });
    await expect(run).rejects.toMatchObject({ code: "lost" });
  });
});

describe("reentrancy", () => {
  test("a sibling has to wait for the calls that entered by the sibling before it", async () => {
    const mutex = createLocks(memory()).mutex("x", { reentrant: true });
    let child: Promise<void> | undefined;
    let inside = 0;
    const alone = async () => {
      expect(++inside).toBe(1);
      await sleep(20);
      inside--;
    };
    await mutex.run(() =>
      Promise.all([
        mutex.run(() => {
          child = mutex.run(alone);
        }),
        mutex.run(alone),
      ]),
    );
    await child;
  });

  test("one lease may be passed on down the same chain any number of times", async () => {
    const mutex = createLocks(memory()).mutex("x");
    const deeper = (lease: Lease, depth: number): Promise<number> =>
      depth === 0
        ? Promise.resolve(7)
        : mutex.run({ within: lease, wait: "1s" }, () => deeper(lease, depth - 1));
    expect(await mutex.run((lease) => deeper(lease, 4))).toBe(7);
  });
});
