import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { createLocks } from "locktender";
import { expect, onTestFinished, test } from "vitest";
import { startFaultProxy } from "#lib/testing/faults.js";
import { eventually, newPrefix, request, type TestedDatabase, toolsFor } from "./tested.js";

/** Connections are few, are given back, and hold nobody up. */
export function poolPromises(database: TestedDatabase): void {
  const { url, ask, sql } = database;
  const { backend, begin } = toolsFor(database);

  test("a pool that the caller has used up is an error in time, and no lock is left behind", async () => {
    const pool = database.pool(url, 1);
    const locks = createLocks(pool.backend({ prefix: newPrefix(), timeout: "300ms" }));
    onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
    await locks.mutex("a").run(() => undefined);
    const taken = await pool.connect();
    await expect(locks.mutex("a").tryAcquire()).rejects.toMatchObject({ code: "backend", retryable: true });
    taken.release();
    await eventually("nobody holds it", 2_000, async () => (await locks.inspect("a")).holders.length === 0);
    expect(await locks.mutex("a").run(() => 7)).toBe(7);
    expect(locks.guarantees.ringing).toBe(false);
  });

  test("who gives up at a row that is locked for long does not stay there on the server", async () => {
    const prefix = newPrefix();
    const one = backend({ prefix, connections: 2, timeout: "200ms" });
    await one.claim(request("a"));
    const blocker = await begin();
    await blocker.query(`UPDATE ${sql.table(prefix, "resources")} SET last_ticket = last_ticket + 1`);
    const gaveUp = { code: "backend", retryable: true };
    for (let time = 0; time < 3; time++) await expect(one.claim(request("a"))).rejects.toMatchObject(gaveUp);
    expect(await ask(url, sql.stuck(prefix))).toHaveLength(3);
    // PostgreSQL waits twice: for those who wait for the row, and then for the row.
    await eventually("all have gone", 15_000, async () => (await ask(url, sql.stuck(prefix))).length === 0);
  });

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

  test("a program that has finished ends, though it has closed nothing", async () => {
    const program = start(`
      const locks = await connect(${JSON.stringify(url)}, { prefix: "${newPrefix()}" });
      await locks.mutex("a").run(() => console.log("it works"));`);
    expect(await ends(program)).toBe("it works\n");
  });
}

const LIBRARY = fileURLToPath(new URL("../support/compiled.mjs", import.meta.url));

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
