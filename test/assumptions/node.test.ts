import { AsyncLocalStorage } from "node:async_hooks";
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir, uptime } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { run } from "../core/program.js";

// What Node does, where our code depends on it. A failure here means: read the code again, not this test.

function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

describe("clocks", () => {
  test("performance.now() runs on while the process is stopped", async () => {
    const folder = await mkdtemp(join(tmpdir(), "locktender-clock-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const script = join(folder, "clock.mjs");
    await writeFile(
      script,
      `process.on("message", () => process.send(performance.now())); process.send("ready");`,
    );
    const child = fork(script);
    onTestFinished(() => void child.kill("SIGKILL"));
    const ask = async (): Promise<number> => {
      const answer = once(child, "message");
      child.send("now?");
      return Number((await answer)[0]);
    };
    await once(child, "message");
    const before = await ask();
    child.kill("SIGSTOP");
    await sleep(600);
    child.kill("SIGCONT");
    expect((await ask()) - before).toBeGreaterThanOrEqual(590);
  });

  test("performance.now() has parts of a millisecond and never goes back", () => {
    let last = performance.now();
    let finer = false;
    for (let look = 0; look < 10_000; look++) {
      const now = performance.now();
      expect(now).toBeGreaterThanOrEqual(last);
      finer ||= !Number.isInteger(now);
      last = now;
    }
    expect(finer).toBe(true);
  });

  test("os.uptime() is finer than the second that is taken for a sleep, and keeps up with performance.now()", async () => {
    const offsets: number[] = [];
    for (let look = 0; look < 40; look++) {
      offsets.push(uptime() * 1_000 - performance.now());
      await sleep(7);
    }
    expect(Math.max(...offsets) - Math.min(...offsets)).toBeLessThan(500);
  });
});

describe("timers", () => {
  test("after a blocked loop, microtasks and even sockets run before a timer that was due long ago", async () => {
    const accepted: Socket[] = [];
    const server = createServer((socket) => accepted.push(socket)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const order: string[] = [];
    // Whichever of them hears first blocks; the other has been ready for just as long.
    const onData = () => {
      if (order.length > 0) return void order.push("socket");
      order.push("blocked");
      setTimeout(() => order.push("timer"), 5);
      block(60);
      queueMicrotask(() => order.push("microtask"));
    };
    const clients = [1, 2].map(() => connect(port, "127.0.0.1").once("data", onData));
    onTestFinished(() => {
      for (const socket of [...clients, ...accepted]) socket.destroy();
      server.close();
    });
    await expect.poll(() => accepted.length).toBe(2);
    for (const socket of accepted) socket.write("x");
    await expect.poll(() => order).toContain("timer");
    expect(order).toEqual(["blocked", "microtask", "socket", "timer"]);
  });

  test("a timer is never early by more than a millisecond, and late by as much as the loop is blocked", async () => {
    const startedAt = performance.now();
    const fired = sleep(30).then(() => performance.now() - startedAt);
    block(120);
    expect(await fired).toBeGreaterThanOrEqual(119);
    const again = performance.now();
    await sleep(30);
    expect(performance.now() - again).toBeGreaterThanOrEqual(29);
  });

  test("a delay beyond 31 bits fires at once, so that it has to be capped", async () => {
    const { out, err } = await run(`
      const startedAt = performance.now();
      await new Promise((resolve) => setTimeout(resolve, 2 ** 31));
      console.log(performance.now() - startedAt < 5_000);
      const capped = setTimeout(() => console.log("too early"), 2 ** 31 - 1);
      await sleep(100);
      clearTimeout(capped);
    `);
    expect(out).toBe("true\n");
    expect(err).toContain("TimeoutOverflowWarning");
  });

  test("a process whose only work is an unref'd timer ends with code 13 in the middle of its await", async () => {
    const { code } = await run(`await new Promise((resolve) => setTimeout(resolve, 5_000).unref());`);
    expect(code).toBe(13);
    expect((await run(`await new Promise((resolve) => setTimeout(resolve, 50));`)).code).toBe(0);
  });
});

describe("call chains", () => {
  test("a value of AsyncLocalStorage is still seen by a timer that outlives its run", async () => {
    const chain = new AsyncLocalStorage<string>();
    let seen: Promise<string | undefined> | undefined;
    await chain.run("inside", async () => {
      seen = sleep(20).then(() => chain.getStore());
    });
    expect(chain.getStore()).toBeUndefined();
    expect(await seen).toBe("inside");
  });

  test("a signal handler added with once is gone before it is called", () => {
    let count = Number.NaN;
    process.once("SIGUSR2", () => {
      count = process.listenerCount("SIGUSR2");
    });
    process.emit("SIGUSR2");
    expect(count).toBe(0);
  });

  test("an abort event reaches its listeners at once, in the same turn", () => {
    const controller = new AbortController();
    let told = false;
    controller.signal.addEventListener("abort", () => {
      told = true;
    });
    controller.abort(new Error("reason"));
    expect(told).toBe(true);
  });
});
