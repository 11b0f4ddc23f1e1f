import { execFile } from "node:child_process";
import { once } from "node:events";
import { createConnection } from "mysql2/promise";
import { expect, onTestFinished, test } from "vitest";
import { openPool } from "#lib/backends/mysql/client.js";
import { readMysqlOptions } from "#lib/backends/mysql/options.js";
import { WakeUps } from "#lib/backends/mysql/wake-ups.js";
import type { SqlConnection } from "#lib/backends/sql/connection.js";
import { Poller } from "#lib/backends/sql/poller.js";
import { REVISION } from "#lib/backends/sql/routines.js";
import { WaiterRegistry } from "#lib/backends/sql/waiter-registry.js";
import type { ClaimRequest } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";
import { RequestTimeout } from "#lib/engine-kit/request-timeout.js";
import { newUser } from "../databases/tested-database.js";
import { backend, DATABASE, eventually, newPrefix, open, poolOf, request, SERVER, sleep } from "./tools.js";

const { ask, sql } = DATABASE;
const SHARED = { weight: 1, capacity: WHOLE };

/** No poller looks here: what a claim is told, it is told by a wake-up. */
const NO_POLLS: SqlConnection = {
  renewalsPerCall: 1,
  call: () => Promise.reject(new Error("nothing is asked by itself")),
  close: async () => {},
};

/** A process that waits, as far as it can be woken up. */
async function sleeper(url: string, prefix: string, waiting: readonly ClaimRequest[], connectionOffset = 0) {
  const pool = await openPool(readMysqlOptions({ url, prefix }));
  const waiters = new WaiterRegistry();
  const told: string[] = [];
  const late = () => new Error("late");
  const settings = {
    prefix,
    timeoutMs: 2_000,
    lend: async () => {
      const lent = await pool.lend(new RequestTimeout(2_000), late);
      const { connection } = lent;
      const { threadId } = connection as { threadId?: number };
      return {
        ...lent,
        connection: {
          threadId: Number(threadId) + connectionOffset,
          execute: connection.execute.bind(connection),
          query: connection.query.bind(connection),
        },
      };
    },
  };
  const wakeUps = new WakeUps(settings, waiters, new Poller(NO_POLLS, waiters));
  onTestFinished(async () => {
    await wakeUps.close();
    await pool.end();
  });
  const claims = `\`${prefix}_claims\``;
  for (const claim of waiting) {
    await ask(SERVER.url, `UPDATE ${claims} SET bell = '${wakeUps.channel}' WHERE id = '${claim.id}'`);
    waiters.watch(claim, () => told.push(claim.id));
    waiters.answered(claim, { state: "waiting", ticket: 1n, remainingMs: 1, changeInMs: 1 }, 1n);
  }
  return { told, wakeUps };
}

function sleeping(prefix: string) {
  return ask(
    SERVER.url,
    `SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%' AND id IN (
      SELECT IS_USED_LOCK(CONCAT('locktender wake-up ', bell)) FROM \`${prefix}_claims\`)`,
  );
}

async function isSleeping(prefix: string, count = 1): Promise<void> {
  await eventually("it sleeps", 10_000, async () => (await sleeping(prefix)).length === count);
}

test("the release by which a claim is granted wakes its process up, and no other release does", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const [held, other, first, second] = [request("a"), request("b"), request("a"), request("a")];
  for (const claim of [held, other, first, second]) await one.claim(claim);
  const next = await sleeper(SERVER.url, prefix, [first]);
  const later = await sleeper(SERVER.url, prefix, [second]);
  await isSleeping(prefix, 2);
  await one.release(other);
  await one.release(held);
  await eventually("it is told", 5_000, () => next.told.length > 0);
  expect(next.told).toEqual([first.id]);
  expect(later.told).toEqual([]);
  await one.release(first);
  await eventually("it is told, too", 5_000, () => later.told.length > 0);
});

test("all processes are woken up whose claims are granted together", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const held = request("a");
  const readers = [request("a", SHARED), request("a", SHARED), request("a", SHARED)];
  for (const claim of [held, ...readers]) await one.claim(claim);
  const processes = await Promise.all(readers.map((reader) => sleeper(SERVER.url, prefix, [reader])));
  await isSleeping(prefix, 3);
  await one.release(held);
  await eventually("all are told", 5_000, () => processes.every(({ told }) => told.length === 1));
});

test("users who may only call the procedures wake each other up", async () => {
  const prefix = newPrefix();
  // The one that makes them has no rights on the connections of other users.
  const maker = await newUser(DATABASE);
  await backend({ url: maker.own, prefix }).claim(request("made"));
  const users = [`user_${newPrefix()}`, `user_${newPrefix()}`];
  for (const name of users) {
    await ask(SERVER.url, sql.makeUser(name));
    await ask(SERVER.url, sql.allow(prefix, name));
    onTestFinished(async () => {
      await ask(SERVER.url, sql.dropUser(name));
    });
  }
  const [waits, holds] = users.map((name) => SERVER.url.replace("tester@", `${name}@`)) as [string, string];
  const one = backend({ url: holds, prefix });
  const [held, waiting] = [request("a"), request("a")];
  for (const claim of [held, waiting]) await one.claim(claim);
  const { told } = await sleeper(waits, prefix, [waiting]);
  await isSleeping(prefix);
  await one.release(held);
  await eventually("it is told", 5_000, () => told.length > 0);
});

test("the connection of another program is not hit, whatever stands in a claim", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const other = await createConnection({ uri: SERVER.url });
  onTestFinished(() => other.end());
  await other.query("DO GET_LOCK('nightly', 1)");
  for (const bell of ["nightly", other.threadId, "x".repeat(64), "nightly,nightly", "'"]) {
    const [held, waiting] = [request("a"), request("a")];
    for (const claim of [held, waiting]) await one.claim(claim);
    await ask(
      SERVER.url,
      `UPDATE \`${prefix}_claims\` SET bell = ${other.escape(String(bell))} WHERE id = '${waiting.id}'`,
    );
    const slept = other.query("SELECT SLEEP(0.3) AS interrupted");
    await sleep(50);
    expect(await one.release(held)).toBe(true);
    expect((await slept)[0]).toEqual([{ interrupted: 0 }]);
    await one.release(waiting);
  }
});

test("behind a proxy, where a connection has another number at the server, nothing sleeps", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const [held, waiting] = [request("a"), request("a")];
  for (const claim of [held, waiting]) await one.claim(claim);
  const { told, wakeUps } = await sleeper(SERVER.url, prefix, [waiting], 1);
  await sleep(500);
  const used = `SELECT IS_USED_LOCK('locktender wake-up ${wakeUps.channel}') AS id`;
  expect(await ask(SERVER.url, used)).toEqual([{ id: null }]);
  await one.release(held);
  expect(told).toEqual([]);
  // Nor if the next call comes by another connection than that which has the lock, or that had that number.
  const call = (connection: string) =>
    ask(SERVER.url, `CALL \`${prefix}_sleep_r${REVISION}\`('${wakeUps.channel}', ${connection}, 5)`);
  expect((await call("CONNECTION_ID()")).flat()[0]).toEqual({ state: null });
});

test("there are never more connections than the option says, and none of fewer than four sleeps", async () => {
  const prefix = newPrefix();
  const { own, connections } = await newUser(DATABASE);
  const few = open({ url: own, prefix, connections: 3 });
  const held = await few.mutex("a").acquire();
  const wait = { wait: "20s" } as const;
  const late = few.mutex("a", { fair: true }).acquire(wait);
  await sleep(500);
  expect(await sleeping(prefix)).toHaveLength(0);
  const others = await connections();
  const many = open({ url: own, prefix, connections: 4 });
  let most = 0;
  const tasks = Array.from({ length: 20 }, () => many.mutex("a", { fair: true }).acquire(wait));
  await isSleeping(prefix);
  for (let look = 0; look < 10; look++) {
    most = Math.max(most, await connections());
    await sleep(20);
  }
  expect(most - others).toBeLessThanOrEqual(3);
  await held.release();
  await (await late).release();
  await Promise.all(tasks.map(async (task) => (await task).release()));
});

test("closing ends the sleep, and a pool of the caller's goes on without the connection", async () => {
  const prefix = newPrefix();
  const pool = poolOf(4);
  const locks = open({ prefix });
  const held = await locks.mutex("a").acquire();
  const own = backend({ pool, prefix });
  const waiting = request("a");
  own.watch(waiting, () => {});
  await own.claim(waiting);
  await isSleeping(prefix);
  const startMs = performance.now();
  await own.close();
  await eventually("no connection sleeps", 2_000, async () => (await sleeping(prefix)).length === 0);
  expect(performance.now() - startMs).toBeLessThan(3_000);
  const rows = await Promise.all([1, 2, 3, 4].map(() => pool.query("SELECT SLEEP(0.1) AS interrupted")));
  for (const [row] of rows) expect(row).toEqual([{ interrupted: 0 }]);
  await held.release();
});

test("a sleep that the server ends at once is not begun again and again", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const [held, waiting] = [request("a"), request("a")];
  for (const claim of [held, waiting]) await one.claim(claim);
  const name = `\`${prefix}_sleep_r${REVISION}\``;
  const calls = `\`${prefix}_calls\``;
  const counting = `BEGIN INSERT INTO ${calls} VALUES (1); SELECT 0 AS state; END`;
  await ask(
    SERVER.url,
    `CREATE TABLE ${calls} (n INT); DROP PROCEDURE ${name};
     CREATE PROCEDURE ${name}(IN channel TEXT, IN connection BIGINT, IN seconds INT) ${counting}`,
  );
  const count = async () => Number((await ask(SERVER.url, `SELECT count(*) AS n FROM ${calls}`))[0]?.n);
  await sleeper(SERVER.url, prefix, [waiting]);
  await eventually("it has slept", 5_000, async () => (await count()) > 0);
  await sleep(1_000);
  expect(await count()).toBeLessThan(20);
  await one.release(held);
});

test("a process is woken up when its claim is taken away", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const [held, waiting] = [request("a"), request("a")];
  for (const claim of [held, waiting]) await one.claim(claim);
  const { told } = await sleeper(SERVER.url, prefix, [waiting]);
  await isSleeping(prefix);
  await one.release(waiting, { reason: "in the way" });
  await eventually("it is told", 5_000, () => told.length > 0);
});

test("a program that has had its turn ends while its connection still sleeps", async () => {
  const prefix = newPrefix();
  const locks = open({ prefix });
  const held = await locks.mutex("a").acquire();
  const program = `
    import { createLocks } from "locktender";
    import { mysql } from "locktender/mysql";
    const locks = createLocks(mysql({ url: "${SERVER.url}", prefix: "${prefix}" }));
    await (await locks.mutex("a").acquire()).release();
    const startMs = performance.now();
    process.on("exit", () => console.log(performance.now() - startMs));`;
  const child = execFile("node", ["--input-type=module", "--eval", program]);
  let said = "";
  child.stdout?.on("data", (text) => {
    said += text;
  });
  const ended = once(child, "exit");
  await isSleeping(prefix);
  await held.release();
  expect(await ended).toEqual([0, null]);
  expect(Number(said)).toBeLessThan(3_000);
});
