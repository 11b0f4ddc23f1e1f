import { expect, test } from "vitest";
import { renewalPromises, SHORT_MS, slowRenewal } from "../databases/renewals.js";
import { backend, begin, DATABASE, eventually, newPrefix, request } from "./tools.js";

renewalPromises(DATABASE);

const renewSlowly = slowRenewal(DATABASE);

test("who asks lets in somebody ahead that is just being renewed, and does not wait for it", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const [held, next, asking] = [request("a", { ttlMs: SHORT_MS }), request("a"), request("a")];
  await one.claim(held);
  const news: unknown[] = [];
  one.watch(next, (told) => news.push(told));
  const { ticket: rung } = (await one.claim(next)) as { ticket: bigint };
  await eventually("it listens", 2_000, () => news.length > 0);
  const { ticket } = (await one.claim(asking)) as { ticket: bigint };
  const finish = await renewSlowly(prefix, next.id);
  expect((await one.claim({ ...asking, ticket })).state).toBe("waiting");
  await eventually("it is told", 2_000, () => news.length > 1);
  expect(news.at(-1)).toEqual({ state: "granted", ticket: rung });
  await finish();
});

test("a claim of a new name that is withdrawn before it has committed leaves nothing", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix, timeout: "300ms", connections: 4 });
  await one.claim(request("warm"));
  const claims = DATABASE.sql.table(prefix, "claims");
  const blocker = await begin();
  // The claim has made the row of its name, and is stuck before it enters.
  await blocker.query(`LOCK TABLE ${claims} IN EXCLUSIVE MODE`);
  const late = request("new", { ttlMs: 20_000 });
  await expect(one.claim(late)).rejects.toMatchObject({ code: "backend" });
  await expect(one.release(late, "unused")).rejects.toMatchObject({ code: "backend" });
  await blocker.query("ROLLBACK");
  const left = async () => DATABASE.ask(DATABASE.url, `SELECT id FROM ${claims} WHERE name = 'new'`);
  await eventually("it is gone", 4_000, async () => {
    const drawn = DATABASE.sql.table(prefix, "resources");
    const names = await DATABASE.ask(DATABASE.url, `SELECT 1 FROM ${drawn} WHERE name = 'new'`);
    return names.length === 1 && (await left()).length === 0;
  });
});
