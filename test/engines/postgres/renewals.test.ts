import type { Pool } from "pg";
import { expect, test } from "vitest";
import { renewalPromises, SHORT_MS, slowRenewal } from "../databases/renewals.js";
import { backend, begin, DATABASE, eventually, newPrefix, poolOf, request } from "./tools.js";

renewalPromises(DATABASE);

const renewSlowly = slowRenewal(DATABASE);

test("a claim that asks lets in one ahead that is just being renewed, and does not wait for it", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const [held, next, asking] = [request("a", { ttlMs: SHORT_MS }), request("a"), request("a")];
  await one.claim(held);
  const news: unknown[] = [];
  one.watch(next, (told) => news.push(told));
  const { ticket: nextTicket } = (await one.claim(next)) as { ticket: bigint };
  await eventually("it listens", 2_000, () => news.length > 0);
  const { ticket } = (await one.claim(asking)) as { ticket: bigint };
  const finish = await renewSlowly(prefix, next.id);
  expect((await one.claim({ ...asking, ticket })).state).toBe("waiting");
  await eventually("it is told", 2_000, () => news.length > 1);
  expect(news.at(-1)).toEqual({ state: "granted", ticket: nextTicket });
  await finish();
});

/** A pool whose clients have forgotten what a cancel request needs. */
function unstoppablePool(): Pool {
  const pool = poolOf();
  pool.on("connect", (client) => Object.assign(client, { secretKey: null }));
  return pool;
}

test.each([
  ["is stopped on the server, and leaves nothing", () => ({}), 0],
  [
    "cannot be stopped, and is committed late, leaves nothing but the name",
    () => ({ pool: unstoppablePool() }),
    1,
  ],
])("a claim of a new name that is withdrawn before it has committed, and %s", async (_, target, names) => {
  const prefix = newPrefix();
  await backend({ prefix }).claim(request("warm"));
  const one = backend({ prefix, timeout: "300ms", ...target() });
  const claims = DATABASE.sql.table(prefix, "claims");
  const blocker = await begin();
  // The claim has made the row of its name, and is stuck before it enters.
  await blocker.query(`LOCK TABLE ${claims} IN EXCLUSIVE MODE`);
  const late = request("new", { ttlMs: 20_000 });
  await expect(one.claim(late)).rejects.toMatchObject({ code: "backend" });
  await expect(one.release(late, "unused")).rejects.toMatchObject({ code: "backend" });
  const stuck = async () => (await DATABASE.ask(DATABASE.url, DATABASE.sql.stuck(prefix))).length;
  if (names === 0) await eventually("the request is stopped", 4_000, async () => (await stuck()) === 0);
  else expect(await stuck()).toBe(1);
  await blocker.query("ROLLBACK");
  const rowsOf = async (table: "claims" | "resources") =>
    DATABASE.ask(DATABASE.url, `SELECT 1 FROM ${DATABASE.sql.table(prefix, table)} WHERE name = 'new'`);
  await eventually("it is gone", 4_000, async () => {
    return (await rowsOf("resources")).length === names && (await rowsOf("claims")).length === 0;
  });
});
