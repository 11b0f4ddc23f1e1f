import { getEventListeners } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createLocks, type Locks, type LocksOptions } from "locktender";
import { memory } from "locktender/memory";
import { sqlite } from "locktender/sqlite";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import type { Frame } from "#lib/core/any-lease.js";
import type { Backend } from "#lib/core/backend.js";
import { compiled, run } from "./program.js";

const folder = mkdtempSync(join(tmpdir(), "locktender-endurance-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function open(backend: Backend, options: LocksOptions = {}): Locks {
  const locks = createLocks(backend, options);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

describe("a job that starts its successor from inside itself", () => {
  test.each([true, false])("does not hand on leases that are over (still inside: %s)", async (inside) => {
    const locks = open(memory());
    const depths: number[] = [];
    const job = async (round: number): Promise<void> => {
      let next: Promise<void> | undefined;
      await locks.mutex(`job ${round}`).run(async (lease) => {
        let depth = 0;
        for (let at = (lease as unknown as { frame: Frame }).frame.outer; at !== undefined; at = at.outer)
          depth++;
        depths.push(depth);
        if (round < 200) next = sleep(2).then(() => job(round + 1));
        if (inside) await sleep(3);
      });
      await next;
    };
    await job(0);
    expect(depths).toHaveLength(201);
    expect(Math.max(...depths)).toBeLessThan(50);
  });
});

describe.each([
  ["memory", () => memory()],
  ["sqlite", () => sqlite({ file: join(folder, "locks.db") })],
])("a loop of locks on %s", (_, backend) => {
  test("lets timers run, and other leases be renewed", async () => {
    const locks = open(backend(), { ttl: 900 });
    const other = await locks.mutex("other").acquire();
    let ticks = 0;
    const timer = setInterval(() => ticks++, 10);
    const untilMs = performance.now() + 2_000;
    while (performance.now() < untilMs) await locks.mutex("loop").run(() => undefined);
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(20);
    expect(other.held).toBe(true);
  });
});

describe("a signal that outlives many locks", () => {
  test("is not listened to any more when they are over", async () => {
    const locks = open(memory());
    const { signal } = new AbortController();
    await locks.mutex("x").run({ signal }, () => undefined);
    await locks.all([locks.mutex("x"), locks.mutex("y")]).run({ signal }, () => undefined);
    await locks.mutex("x").run(async () => {
      await expect(locks.mutex("x").acquire({ signal, within: null, wait: 5 })).rejects.toThrow("gave up");
    });
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  test("keeps none of their own signals in memory", async () => {
    setFlagsFromString("--expose_gc");
    const collect = runInNewContext("gc") as () => void;
    const locks = open(memory());
    const { signal } = new AbortController();
    const both = locks.all([locks.mutex("x"), locks.mutex("y")]);
    const signals: WeakRef<AbortSignal>[] = [];
    for (let round = 0; round < 50; round++) {
      await both.run({ signal }, (lease) => {
        lease.signal.addEventListener("abort", () => undefined);
        signals.push(new WeakRef(lease.signal));
      });
    }
    await sleep(10);
    collect();
    expect(signals.filter((ref) => ref.deref() !== undefined).length).toBeLessThan(10);
  });
});

test("what is printed of a lease does not show the id of its claim", async () => {
  const lease = await open(memory()).mutex("x").acquire();
  const { id } = (lease as unknown as { heldClaim: { claim: { id: string } } }).heldClaim.claim;
  expect(inspect(lease, { depth: 9, showHidden: true })).not.toContain(id);
  expect(inspect(lease)).toMatch(/^Lease \{"name":"x","token":"\d+","held":true/);
});

test("after close there is nothing to look at, either", async () => {
  const locks = createLocks(memory());
  await locks.close();
  await expect(locks.inspect("x")).rejects.toMatchObject({ code: "closed" });
  await expect(locks.list().next()).rejects.toMatchObject({ code: "closed" });
  await expect(
    open(memory())
      .list({ prefx: "a" } as never)
      .next(),
  ).rejects.toMatchObject({ code: "invalid-option" });
});

test("a lease that is over when its callback is to start does not start it", async () => {
  const block = () => {
    const untilMs = performance.now() + 60;
    while (performance.now() < untilMs);
  };
  const locks = open(memory(), { onEvent: ({ type }) => void (type === "acquired" && block()) });
  let started = false;
  const running = locks.mutex("x").run({ ttl: 40 }, () => {
    started = true;
  });
  await expect(running).rejects.toMatchObject({ code: "lost" });
  expect(started).toBe(false);
});

test("a loss that the holder could not be told of before the close is told as what it was", async () => {
  const locks = open(memory(), { ttl: 50 });
  const lease = await locks.mutex("x").acquire({ renew: false });
  const { signal } = lease;
  const untilMs = performance.now() + 100;
  while (performance.now() < untilMs);
  await locks.close({ drain: 0, abort: 0 });
  expect(signal.reason).toMatchObject({ loss: expect.stringMatching(/^(expired|paused)$/) });
});

test("a waiter for its own chain is told so", async () => {
  const mutex = open(memory()).mutex("x", { reentrant: true });
  const twice = mutex.run(async () => {
    const inner = await mutex.acquire();
    try {
      await mutex.acquire({ wait: 50 });
    } finally {
      await inner.release();
    }
  });
  await expect(twice).rejects.toMatchObject({
    code: "timeout",
    message: expect.stringMatching(/this call chain holds it/),
  });
});

test("a program whose callback waits for nothing but its signal does not end before it", async () => {
  const { code, out } = await run(`
    const locks = await connect("sqlite:${join(folder, "alive.db")}");
    const lost = (signal) => new Promise((resolve) => signal.addEventListener("abort", resolve));
    await locks.mutex("x").run({ maxHold: 300 }, ({ signal }) => lost(signal)).catch(({ loss }) => console.log(loss));
    await locks.close();
  `);
  expect({ code, out }).toEqual({ code: 0, out: "expired\n" });
});

test.skipIf(process.getuid?.() !== 0)(
  "SIGTERM ends also the first process of a container [needs root]",
  async () => {
    const { code, out } = await run(
      `
    import { spawn } from "node:child_process";
    const source = ${JSON.stringify(`
      const locks = createLocks(memory(), { closeOnSignals: { drain: 0, abort: 0 } });
      await locks.mutex("x").acquire();
      setInterval(() => {}, 1_000);
      console.log(process.pid);
    `)};
    const head = 'import { createLocks } from "' + ${JSON.stringify(compiled("index.js"))} +
      '"; import { memory } from "' + ${JSON.stringify(compiled("backends/memory/index.js"))} + '";';
    const args = ["--pid", "--fork", "--mount-proc", "--kill-child", process.execPath, "--input-type=module", "--eval", head + source];
    const outer = spawn("unshare", args, { stdio: ["ignore", "pipe", "inherit"] });
    const { readFileSync } = await import("node:fs");
    outer.stdout.once("data", (line) => {
      console.log(String(line).trim());
      const inner = Number(readFileSync("/proc/" + outer.pid + "/task/" + outer.pid + "/children", "utf8").trim());
      process.kill(inner, "SIGTERM");
    });
    outer.once("exit", (code) => console.log("ended with " + code));
    setTimeout(() => { outer.kill("SIGKILL"); }, 5_000).unref();
  `,
    );
    expect({ code, out }).toEqual({ code: 0, out: "1\nended with 143\n" });
  },
);
