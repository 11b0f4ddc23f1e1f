import { expect, onTestFinished, test } from "vitest";
import { askPostgres } from "../servers/postgres.js";
import { backend, eventually, newPrefix, poolOf, request, SERVER, sleep } from "./tools.js";

const { url } = SERVER;
const SHORT_MS = 300;

/** A renewal that has begun before the claim ran out, and ends when it is told to. */
async function renewSlowly(prefix: string, id: string): Promise<() => Promise<void>> {
  const client = await poolOf(url, 1).connect();
  onTestFinished(() => client.release(true));
  await client.query("BEGIN");
  await client.query(`UPDATE "${prefix}".claims SET deadline_us = deadline_us + 60000000 WHERE id = $1`, [
    id,
  ]);
  await sleep(SHORT_MS + 100);
  return async () => {
    await sleep(200);
    await client.query("COMMIT");
  };
}

test("a claim that is just being renewed is not taken for dead by whoever asks", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const held = request("a", { ttlMs: SHORT_MS });
  expect((await one.claim(held)).state).toBe("granted");
  const finish = await renewSlowly(prefix, held.id);
  const [asked] = await Promise.all([one.claim(request("a")), finish()]);
  expect(asked.state).toBe("waiting");
});

test("nor by whoever leaves", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const shared = { weight: 1, capacity: 2 };
  const [renewed, leaving, next] = [
    request("a", { ...shared, ttlMs: SHORT_MS }),
    request("a", shared),
    request("a", shared),
  ];
  for (const claim of [renewed, leaving, next]) await one.claim(claim);
  const finish = await renewSlowly(prefix, renewed.id);
  const [left] = await Promise.all([one.release(leaving), finish()]);
  expect(left).toBe(true);
  const rows = await askPostgres(url, `SELECT id FROM "${prefix}".claims ORDER BY ticket`);
  expect(rows.map(({ id }) => id)).toEqual([renewed.id, next.id]);
});

test("nor is a renewal cut short by a question of the same claim that began before it", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const [held, asking] = [request("a", { ttlMs: SHORT_MS }), request("a")];
  await one.claim(held);
  const { ticket } = (await one.claim(asking)) as { ticket: bigint };
  const finishFirst = await renewSlowly(prefix, held.id);
  // It has read the clock, waits for the claim ahead, and then for the renewal of its own.
  const asked = one.claim({ ...asking, ticket });
  const finishOwn = await renewSlowly(prefix, asking.id);
  await finishFirst();
  await finishOwn();
  expect((await asked).state).toBe("waiting");
  const [row] = await askPostgres(
    url,
    `SELECT deadline_us - seen_us AS kept_us FROM "${prefix}".claims WHERE id = '${asking.id}'`,
  );
  expect(Number(row?.kept_us)).toBeGreaterThan(60_000_000);
});

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
