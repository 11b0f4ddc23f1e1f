import { expect, test } from "vitest";
import { newPrefix, request, sleep, type TestedDatabase, toolsFor } from "./tested-database.js";

export const SHORT_MS = 300;

/** A renewal that has begun before the claim ran out, and ends when it is told to. */
export function slowRenewal(database: TestedDatabase) {
  return async (prefix: string, id: string): Promise<() => Promise<void>> => {
    const connection = await toolsFor(database).begin();
    const claims = database.sql.table(prefix, "claims");
    const [row] = await database.ask(database.url, `SELECT name, ticket FROM ${claims} WHERE id = '${id}'`);
    // By its key, as renewals do, or others would be locked on the way.
    const own = `name = '${row?.name}' AND ticket = ${row?.ticket}`;
    await connection.query(`UPDATE ${claims} SET deadline_us = deadline_us + 60000000 WHERE ${own}`);
    await sleep(SHORT_MS + 100);
    return async () => {
      await sleep(200);
      await connection.query("COMMIT");
    };
  };
}

/** A claim that is just being renewed is not taken for dead, and what the renewal promises is kept. */
export function renewalPromises(database: TestedDatabase): void {
  const { url, ask, sql } = database;
  const { backend } = toolsFor(database);
  const renewSlowly = slowRenewal(database);

  test("a claim that is just being renewed is not taken for dead by a claim that asks", async () => {
    const prefix = newPrefix();
    const one = backend({ prefix });
    const held = request("a", { ttlMs: SHORT_MS });
    expect((await one.claim(held)).state).toBe("granted");
    const finish = await renewSlowly(prefix, held.id);
    const [asked] = await Promise.all([one.claim(request("a")), finish()]);
    expect(asked.state).toBe("waiting");
  });

  test("nor by a holder that leaves", async () => {
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
    const rows = await ask(url, `SELECT id FROM ${sql.table(prefix, "claims")} ORDER BY ticket`);
    expect(rows.map(({ id }) => id)).toEqual([renewed.id, next.id]);
  });

  test.each([
    ["given back", undefined],
    ["withdrawn", "unused" as const],
    ["forced away", { reason: "test" }],
  ])("but one that is %s while a late renewal is under way does not stay", async (_, ending) => {
    const prefix = newPrefix();
    const one = backend({ prefix, timeout: "10s" });
    const held = request("a", { ttlMs: SHORT_MS });
    await one.claim(held);
    const finish = await renewSlowly(prefix, held.id);
    await Promise.all([one.release(held, ending), finish()]);
    expect(await ask(url, `SELECT id FROM ${sql.table(prefix, "claims")}`)).toEqual([]);
  });

  test("nor is a renewal cut short by a question of the same claim that began before it", async () => {
    const prefix = newPrefix();
    const one = backend({ prefix, timeout: "10s" });
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
    const kept = `SELECT deadline_us - seen_us AS kept_us FROM ${sql.table(prefix, "claims")} WHERE id = '${asking.id}'`;
    expect(Number((await ask(url, kept))[0]?.kept_us)).toBeGreaterThan(60_000_000);
  });
}
