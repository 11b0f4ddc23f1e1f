import { createLocks, type Locks } from "locktender";
import { etcd } from "locktender/etcd";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Answer, Backend } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";
import { type Etcd, startEtcd } from "./server.js";

let server: Etcd;
beforeAll(async () => {
  server = await startEtcd();
});
afterAll(() => server.stop());

const MANY = 60;
let last = 0;

function openBackend(): Backend {
  const backend = etcd({ url: server.url });
  onTestFinished(() => backend.close());
  return backend;
}

function openLocks(): Locks {
  const locks = createLocks(etcd({ url: server.url }));
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

/** That many claims at once, each of weight 1. */
function ask(backend: Backend, name: string, capacity: number, queue: boolean): Promise<Answer[]> {
  const fixed = { name, weight: 1, capacity, queue, ttlMs: 5_000, fixed: false, minHoldMs: 0 };
  const about = { owner: { instance: "crowd", host: "here", pid: 1 }, note: "" };
  return Promise.all(
    Array.from({ length: MANY }, () => backend.claim({ ...fixed, ...about, id: `crowd-${++last}` })),
  );
}

const states = (answers: readonly Answer[]) => answers.map(({ state }) => state).sort();

describe("many callers at once", () => {
  test("readers are all let in, whether they wait or only try", async () => {
    const backend = openBackend();
    for (const queue of [true, false]) {
      const answers = await ask(backend, `readers ${queue}`, WHOLE, queue);
      expect(new Set(states(answers))).toEqual(new Set(["granted"]));
    }
  });

  test("of callers that only try a semaphore, as many are let in as fit, and the others leave no trace", async () => {
    const backend = openBackend();
    const answers = await ask(backend, "permits", 10, false);
    const granted = answers.filter(({ state }) => state === "granted").length;
    // A caller that loses all races comes for a moment, and may be in the way of another one then.
    expect(granted).toBeGreaterThan(0);
    expect(granted).toBeLessThanOrEqual(10);
    expect(answers.filter(({ state }) => state === "refused")).toHaveLength(MANY - granted);
    for await (const { claims } of backend.list({ name: "permits" })) expect(claims).toHaveLength(granted);
  });

  test("maxWaiters is kept, and no caller is turned away for being one of many", async () => {
    const mutex = openLocks().mutex("full", { maxWaiters: 5 });
    const holder = await mutex.acquire();
    const waits = Array.from({ length: MANY }, () => mutex.run(() => "in").catch(({ code }) => code));
    await expect.poll(async () => (await openLocks().inspect("full")).waiters.length).toBe(5);
    await holder.release();
    const outcomes = await Promise.all(waits);
    expect(outcomes.filter((outcome) => outcome === "in")).toHaveLength(5);
    expect(outcomes.filter((outcome) => outcome === "queue-full")).toHaveLength(MANY - 5);
  });
});
