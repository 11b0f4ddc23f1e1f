import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { shared } from "../servers/shared.js";
import { compiled, run, start } from "./program.js";

const REDIS = JSON.stringify({ url: (await shared("redis")).url, prefix: `process-${process.pid}` });

describe.concurrent("a program", () => {
  test("that does nothing but wait does not end before its wait does", async () => {
    const { code, out, err } = await run(`
      const locks = createLocks(memory());
      await locks.mutex("x").acquire({ ttl: "10m", renew: false });
      await locks.mutex("x").acquire({ wait: 700 }).catch((error) => console.log(error.code));
    `);
    expect({ code, out, err }).toEqual({ code: 0, out: "timeout\n", err: "" });
  });

  test("that waits for its own sibling, or for a turn inside a lease, does not end before it, either", async () => {
    const { code, out } = await run(`
      const locks = createLocks(memory());
      const mutex = locks.mutex("x", { reentrant: true });
      await mutex.run(async () => {
        const inner = await mutex.acquire();
        await mutex.acquire({ wait: 500 }).catch((error) => console.log(error.code));
        await inner.release();
      });
      console.log("done");
    `);
    expect({ code, out }).toEqual({ code: 0, out: "timeout\ndone\n" });
  });

  test("that has finished ends by itself, though it still holds a lock", async () => {
    const { code, signal, tookMs } = await run(`
      const locks = createLocks(memory(), { ttl: "5m" });
      await locks.mutex("x").acquire();
    `);
    expect({ code, signal }).toEqual({ code: 0, signal: null });
    expect(tookMs).toBeLessThan(10_000);
  });

  test("that has closed its connection ends by itself, with waiters, holders and callbacks left behind", async () => {
    const { code, out, err } = await run(`
      const locks = createLocks(redis(${REDIS}), { ttl: "5m" });
      await locks.mutex("held").acquire();
      const waiting = locks.mutex("held").acquire({ wait: Infinity }).catch((error) => console.log(error.code));
      const running = locks.mutex("run").run(() => new Promise(() => {}));
      running.catch(() => {});
      await sleep(200);
      await locks.close({ drain: 50, abort: 50 });
      await waiting;
      console.log("closed");
    `);
    expect({ code, out, err }).toEqual({ code: 0, out: "closed\nclosed\n", err: "" });
  });

  test("whose renewals fail hears of the loss, and of no unhandled rejection", async () => {
    const { code, out, err } = await run(`
      const backend = memory();
      const locks = createLocks(backend, { ttl: 200 });
      const lease = await locks.mutex("x").acquire();
      lease.signal.addEventListener("abort", () => console.log(lease.signal.reason.loss));
      backend.renew = () => Promise.reject(new Error("down"));
      backend.release = () => Promise.reject(new Error("down"));
      await sleep(600);
      console.log(await lease.release());
      locks.mutex("y").run(() => "ran").then(console.log);
    `);
    expect({ code, out, err }).toEqual({ code: 0, out: "expired\nfalse\nran\n", err: "" });
  });
});

describe.concurrent("on a signal, with closeOnSignals", () => {
  const HOLDER = `
    const locks = createLocks(memory(), { closeOnSignals: { drain: 0, abort: 0 } });
    await locks.mutex("x").acquire();
    setInterval(() => {}, 1_000);
  `;

  test("a program without a handler of its own ends by the signal, after it has closed", async () => {
    const program = start(`${HOLDER}
      const other = createLocks(memory(), { closeOnSignals: true });
      process.on("exit", () => console.log("not by exit"));
      console.log("ready");
    `);
    await program.printed("ready");
    program.kill("SIGTERM");
    expect(await program.ended).toMatchObject({ code: null, signal: "SIGTERM", out: "ready\n" });
  });

  test("what ends by it says which signal it was", async () => {
    const program = start(`
      const locks = createLocks(memory(), { closeOnSignals: true });
      await locks.mutex("x").acquire();
      locks.mutex("x").acquire({ wait: "20s" }).catch((error) => console.log(error.message));
      console.log("ready");
    `);
    await program.printed("ready");
    program.kill("SIGTERM");
    const { out } = await program.ended;
    expect(out).toBe(
      `ready\nshutting down: this process was sent SIGTERM, so "x" cannot be taken any more.\n`,
    );
  });

  test.each(["on", "once", "prependListener"])(
    "a handler that the user added with process.%s stays in charge",
    async (add) => {
      for (const order of ["before", "after"]) {
        const own = `process.${add}("SIGTERM", async () => {
        console.log("mine");
        await sleep(400);
        console.log("my last word");
        process.exit(7);
      });`;
        const program = start(`${order === "before" ? own : ""}${HOLDER}${order === "after" ? own : ""}
        console.log("ready");
      `);
        await program.printed("ready");
        program.kill("SIGTERM");
        const { code, signal, out } = await program.ended;
        expect({ order, code, signal, out }).toEqual({
          order,
          code: 7,
          signal: null,
          out: "ready\nmine\nmy last word\n",
        });
      }
    },
  );

  test.each([
    ["SIGINT", "true", "closing\n"],
    ["SIGINT", '["SIGTERM"]', ""],
    ["SIGTERM", '["SIGTERM"]', "closing\n"],
  ] as const)("%s closes first where it is named: %s", async (signal, option, told) => {
    const program = start(`
      const locks = createLocks(memory(), { closeOnSignals: ${option} });
      locks.closing.addEventListener("abort", () => console.log("closing"));
      setInterval(() => {}, 1_000);
      console.log("ready");
    `);
    await program.printed("ready");
    program.kill(signal);
    expect(await program.ended).toMatchObject({ signal, out: `ready\n${told}` });
  });

  test("a signal that is sent again later ends the program at once, and one that comes twice does not", async () => {
    const program = start(`
      const locks = createLocks(memory(), { closeOnSignals: { drain: "50s" } });
      void locks.mutex("x").run(() => sleep(40_000));
      locks.closing.addEventListener("abort", () => setTimeout(() => console.log("still here"), 1_500));
      await sleep(50);
      console.log("ready");
    `);
    await program.printed("ready");
    program.kill("SIGINT");
    program.kill("SIGINT");
    await program.printed("still here");
    program.kill("SIGINT");
    expect(await program.ended).toMatchObject({ signal: "SIGINT" });
  });

  test("many connections are one listener, of which Node need not warn", async () => {
    const program = start(`
      for (let round = 0; round < 20; round++) createLocks(memory(), { closeOnSignals: true });
      setInterval(() => {}, 1_000);
      await sleep(50);
      console.log("ready");
    `);
    await program.printed("ready");
    program.kill("SIGTERM");
    expect(await program.ended).toMatchObject({ signal: "SIGTERM", out: "ready\n", err: "" });
  });

  test("two copies of the package do not take each other for a handler of the user's", async ({
    onTestFinished,
  }) => {
    const folder = await mkdtemp(join(tmpdir(), "locktender-copy-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    await cp(fileURLToPath(compiled("")), folder, { recursive: true });
    await writeFile(join(folder, "package.json"), '{ "type": "module" }');
    const program = start(`${HOLDER}
      const copy = await import(${JSON.stringify(pathToFileURL(join(folder, "index.js")).href)});
      await copy.connect("memory:", { closeOnSignals: true });
      console.log("ready");
    `);
    await program.printed("ready");
    program.kill("SIGTERM");
    expect(await program.ended).toMatchObject({ signal: "SIGTERM", out: "ready\n" });
  });

  test("a connection that was closed before leaves no handler behind", async () => {
    const { out } = await run(`
      const before = process.listenerCount("SIGTERM");
      for (let round = 0; round < 20; round++) {
        const locks = createLocks(memory(), { closeOnSignals: true });
        await locks.close();
      }
      console.log(process.listenerCount("SIGTERM") - before);
    `);
    expect(out).toBe("0\n");
  });

  test("a connection that could not be made leaves no handler behind, and one that was made has one until it is closed", async () => {
    const url = JSON.stringify((await shared("redis")).url);
    const { out, err } = await run(`
      const before = process.listenerCount("SIGTERM");
      const added = () => process.listenerCount("SIGTERM") - before;
      const fail = (url, options) =>
        connect(url, { closeOnSignals: true, ...options }).then(
          () => console.log("connected to " + url),
          (error) => console.log(error.code, added()),
        );
      await fail("redis://127.0.0.1:1");
      await fail("redis+cluster://127.0.0.1:1,127.0.0.1:2");
      await fail("redis+sentinel://127.0.0.1:1/main");
      await fail("sqlite:/no/such/folder/locks.db");
      await fail("memory:", { ttl: "for ever" });
      await fail("memory:", { closeOnSignals: { drain: "for ever" } });
      for (const url of [${url}, "memory:"]) {
        const locks = await connect(url, { closeOnSignals: true });
        const open = added();
        await locks.close();
        console.log("closed", open, added());
      }
    `);
    expect(err).toBe("");
    expect(out.trimEnd().split("\n")).toEqual([
      "backend 0",
      "backend 0",
      "backend 0",
      "backend 0",
      "invalid-option 0",
      "invalid-option 0",
      "closed 1 0",
      "closed 1 0",
    ]);
  });
});
