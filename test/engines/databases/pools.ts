import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { createLocks } from "locktender";
import { expect, onTestFinished, test } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { startFaultProxy } from "#lib/testing/faults.js";
import {
  eventually,
  isGranted,
  newPrefix,
  newUser,
  request,
  sleep,
  type TestedDatabase,
  toolsFor,
} from "./tested-database.js";

/** Connections are few, are given back, and hold no caller up. */
export function poolPromises(database: TestedDatabase): void {
  const { url, sql } = database;
  const { backend, begin } = toolsFor(database);

  test("a pool that the caller has used up is an error in time, and no lock is left behind", async () => {
    const pool = database.pool(url, 1);
    const prefix = newPrefix();
    await backend({ prefix, timeout: "20s" }).claim(request("warm"));
    const locks = createLocks(pool.backend({ prefix, timeout: "1s" }));
    onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
    await locks.mutex("a").run(() => undefined);
    const taken = await pool.connect();
    await expect(locks.mutex("a").tryAcquire()).rejects.toMatchObject({ code: "backend", retryable: true });
    taken.release();
    await eventually("it has no holder", 2_000, async () => (await locks.inspect("a")).holders.length === 0);
    expect(await locks.mutex("a").run(() => 7)).toBe(7);
    expect(locks.guarantees.notifications).toBe(false);
  });

  test("a pool that the caller has ended is an error at once, which nothing but the caller can mend", async () => {
    const pool = database.pool(url, 4);
    const locks = createLocks(pool.backend({ prefix: newPrefix() }));
    onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
    await locks.mutex("a").run(() => undefined);
    pool.end();
    const startedAt = performance.now();
    await expect(locks.mutex("a").acquire({ wait: "1m" })).rejects.toMatchObject({
      code: "backend",
      retryable: false,
      message: expect.stringMatching(/End the pool after the locks: await locks\.close\(\) comes first\.$/),
    });
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });

  test("a request that hangs is stopped on the server, and our connections never become more", async () => {
    const prefix = newPrefix();
    const { own, connections } = await newUser(database);
    const maker = database.open({ url: own, prefix, connections: 1, timeout: "20s" });
    await maker.claim(request("a"));
    await maker.close();
    await eventually("its connection is gone", 5_000, async () => (await connections()) === 0);
    const one = backend({ url: own, prefix, connections: 3, timeout: "500ms" });
    await expectStopped(one, prefix, connections, 3);
  });

  test("nor those of a pool of the caller's", async () => {
    const prefix = newPrefix();
    const { own, connections } = await newUser(database);
    const pool = database.pool(own, 3);
    await pool.backend({ prefix, timeout: "20s" }).claim(request("a"));
    const one = pool.backend({ prefix, timeout: "500ms" });
    // One of them is being closed while the next one is opened.
    await expectStopped(one, prefix, connections, 3 + 1);
  });

  /** Many ask for a row that is locked for long; when it is free, they are served again. */
  async function expectStopped(
    one: Backend,
    prefix: string,
    connections: () => Promise<number>,
    most: number,
  ): Promise<void> {
    const blocker = await begin();
    await blocker.query(`UPDATE ${sql.table(prefix, "resources")} SET last_ticket = last_ticket + 1`);
    const until = performance.now() + 5_000;
    let failures = 0;
    let seen = 0;
    const ask = async () => {
      while (performance.now() < until) await one.claim(request("a")).catch(() => failures++);
    };
    const watch = async () => {
      while (performance.now() < until) {
        seen = Math.max(seen, await connections());
        await sleep(10);
      }
    };
    await Promise.all([watch(), ...Array.from({ length: 8 }, ask)]);
    expect(failures).toBeGreaterThan(8);
    expect(seen).toBeLessThanOrEqual(most);
    await blocker.query("ROLLBACK");
    await eventually("it works again", 5_000, () => one.claim(request("b")).then(isGranted, () => false));
    expect(await database.ask(url, sql.stuck(prefix))).toEqual([]);
  }

  test("a program whose server has fallen silent ends as soon as it has closed", async () => {
    const { hostname, port } = new URL(url);
    const proxy = await startFaultProxy({ target: { host: hostname, port: Number(port) } });
    onTestFinished(() => proxy.close());
    const near = url.replace(`${hostname}:${port}`, `${proxy.host}:${proxy.port}`);
    const program = start(`
      const locks = await connect(${JSON.stringify(near)}, { prefix: "${newPrefix()}" });
      await locks.mutex("a").run(() => undefined);
      console.log("it works");
      await new Promise((resolve) => process.stdin.once("data", resolve));
      process.stdin.unref();
      await locks.mutex("a").tryAcquire().catch((error) => console.log(error.code));
      await locks.close();`);
    await once(program.stdout, "data");
    proxy.blackhole("both");
    program.stdin.write("go on\n");
    expect(await ends(program)).toBe("backend\n");
  });
}

const LIBRARY = fileURLToPath(new URL("../../support/compiled.mjs", import.meta.url));

function start(script: string): ChildProcessWithoutNullStreams {
  const head = `
    const { compiled } = await import(${JSON.stringify(LIBRARY)});
    const { connect } = await compiled("index.js");`;
  return spawn(process.execPath, ["--input-type=module", "-e", head + script]);
}

/** What it has still to say, once it has ended by itself. */
async function ends(program: ChildProcessWithoutNullStreams): Promise<string> {
  let said = "";
  program.stdout.on("data", (data) => {
    said += data;
  });
  const timer = setTimeout(() => program.kill("SIGKILL"), 15_000);
  const [code] = await once(program, "close");
  clearTimeout(timer);
  expect(code).toBe(0);
  return said;
}
