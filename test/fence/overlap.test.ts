import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { isLockError } from "locktender";
import { fence, fenceTable } from "locktender/fence";
import mysql from "mysql2/promise";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { freshDatabaseWith, type ServerDialect } from "./servers.js";

const TABLES = [
  "CREATE TABLE stock (item VARCHAR(100) PRIMARY KEY, pieces INT)",
  "CREATE TABLE history (place SERIAL, name VARCHAR(100), token BIGINT)",
];
const URLS = {
  postgres: await freshDatabaseWith("postgres", fenceTable("postgres"), ...TABLES),
  mysql: await freshDatabaseWith("mysql", fenceTable("mysql"), ...TABLES),
};
const ISOLATIONS = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] as const;
type Isolation = (typeof ISOLATIONS)[number];
const DIALECTS = ["postgres", "mysql"] as const;
const CASES = DIALECTS.flatMap((dialect) => ISOLATIONS.map((isolation) => [dialect, isolation] as const));

/** How each database says that a transaction has to be tried again: 40001, 40P01, and MariaDB's 1020, 1213. */
const TRY_AGAIN = /^(40001|40P01|ER_CHECKREAD|ER_LOCK_DEADLOCK)$/;

/** A transaction on a connection of its own. */
interface Tx {
  ask(sql: string): Promise<Record<string, unknown>[]>;
  fence(name: string, token: bigint): Promise<void>;
  end(how: "COMMIT" | "ROLLBACK"): Promise<unknown>;
}

async function begin(dialect: ServerDialect, isolation: Isolation = "READ COMMITTED"): Promise<Tx> {
  if (dialect === "postgres") {
    const client = new pg.Client(URLS.postgres);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query(`BEGIN ISOLATION LEVEL ${isolation}`);
    return {
      ask: async (sql) => (await client.query(sql)).rows,
      fence: (name, token) => fence(client, { name, token }),
      end: (how) => client.query(how),
    };
  }
  const connection = await mysql.createConnection(URLS.mysql);
  onTestFinished(() => connection.end());
  await connection.query(`SET SESSION TRANSACTION ISOLATION LEVEL ${isolation}`);
  await connection.beginTransaction();
  return {
    ask: async (sql) => (await connection.query(sql))[0] as Record<string, unknown>[],
    fence: (name, token) => fence(connection, { name, token }),
    end: (how) => connection.query(how),
  };
}

async function stocked(dialect: ServerDialect): Promise<string> {
  const item = `stock:${randomUUID()}`;
  const tx = await begin(dialect);
  await tx.ask(`INSERT INTO stock VALUES ('${item}', 7)`);
  // The row of the fence is there from an earlier holder.
  await tx.fence(item, 0n);
  await tx.end("COMMIT");
  return item;
}

const read = async (tx: Tx, item: string) =>
  (await tx.ask(`SELECT pieces FROM stock WHERE item = '${item}'`))[0]?.pieces;
const write = (tx: Tx, item: string, pieces: number) =>
  tx.ask(`UPDATE stock SET pieces = ${pieces} WHERE item = '${item}'`);

async function pieces(dialect: ServerDialect, item: string): Promise<unknown> {
  return read(await begin(dialect), item);
}

type Outcome = "admitted" | "stale" | "try again";

/** What became of a fence. Any other error is one. */
async function outcomeOf(fencing: Promise<void>): Promise<Outcome> {
  try {
    await fencing;
    return "admitted";
  } catch (error) {
    if (isLockError(error, "stale-token")) return "stale";
    // As the database said it: a program that retries transactions looks for its code.
    if (!isLockError(error) && TRY_AGAIN.test((error as { code: string }).code)) return "try again";
    throw error;
  }
}

/** Fences that wait for another transaction. */
async function waiting(fencing: Promise<void>): Promise<{ readonly outcome: Promise<Outcome> }> {
  const outcome = outcomeOf(fencing);
  expect(await Promise.race([outcome, sleep(150, "waits")])).toBe("waits");
  return { outcome };
}

/** PostgreSQL does not let a transaction with a snapshot touch a row that was changed since. */
const unless = (strict: boolean, outcome: Outcome): Outcome => (strict ? "try again" : outcome);

describe.each(CASES)("two transactions that overlap, on %s at %s", (dialect, isolation) => {
  const strict = dialect === "postgres" && isolation !== "READ COMMITTED";

  test("the older one first: the newer one waits, and then sees what it wrote", async () => {
    const item = await stocked(dialect);
    const [older, newer] = [await begin(dialect, isolation), await begin(dialect, isolation)];
    await older.fence(item, 1n);
    const { outcome } = await waiting(newer.fence(item, 2n));
    await write(older, item, 6);
    await older.end("COMMIT");
    expect(await outcome).toBe(unless(strict, "admitted"));
    let last = newer;
    if (strict) {
      await newer.end("ROLLBACK");
      last = await begin(dialect, isolation);
      await last.fence(item, 2n);
    }
    expect(await read(last, item)).toBe(6);
    await write(last, item, 5);
    await last.end("COMMIT");
    expect(await outcomeOf((await begin(dialect, isolation)).fence(item, 1n))).toBe("stale");
  });

  test("the newer one first: the older one waits, and is refused", async () => {
    const item = await stocked(dialect);
    const [older, newer] = [await begin(dialect, isolation), await begin(dialect, isolation)];
    await newer.fence(item, 2n);
    const { outcome } = await waiting(older.fence(item, 1n));
    await write(newer, item, 6);
    await newer.end("COMMIT");
    expect(await outcome).toBe(unless(strict, "stale"));
    await older.end("ROLLBACK");
    expect(await outcomeOf((await begin(dialect, isolation)).fence(item, 1n))).toBe("stale");
  });

  test("the newer one first, but it is rolled back: nothing has happened, and the older one goes on", async () => {
    const item = await stocked(dialect);
    const [older, newer] = [await begin(dialect, isolation), await begin(dialect, isolation)];
    await newer.fence(item, 2n);
    const { outcome } = await waiting(older.fence(item, 1n));
    await newer.end("ROLLBACK");
    expect(await outcome).toBe("admitted");
  });

  test("a snapshot from before the newer one does not let the older one in", async () => {
    const item = await stocked(dialect);
    const older = await begin(dialect, isolation);
    // At SERIALIZABLE, MySQL would lock what is read here; another table will do for a snapshot.
    await older.ask("SELECT * FROM history WHERE name = 'nobody'");
    const newer = await begin(dialect, isolation);
    await newer.fence(item, 2n);
    await write(newer, item, 6);
    await newer.end("COMMIT");
    expect(["stale", "try again"]).toContain(await outcomeOf(older.fence(item, 1n)));
    await older.end("ROLLBACK");
    expect(await pieces(dialect, item)).toBe(6);
  });

  test("twenty writers at once on a name without a row: tokens never go back", async () => {
    const name = `crowd:${randomUUID()}`;
    const tokens = Array.from({ length: 20 }, (_, index) => BigInt(((index * 7) % 20) + 1));
    const outcomes = await Promise.all(
      tokens.map(async (token) => {
        for (;;) {
          const tx = await begin(dialect, isolation);
          const outcome = await outcomeOf(tx.fence(name, token));
          // Behind the fence, so places are given in the order of admission.
          if (outcome === "admitted")
            await tx.ask(`INSERT INTO history (name, token) VALUES ('${name}', ${token})`);
          await tx.end(outcome === "admitted" ? "COMMIT" : "ROLLBACK");
          if (outcome !== "try again") return outcome;
        }
      }),
    );
    const admitted = await (await begin(dialect)).ask(
      `SELECT token FROM history WHERE name = '${name}' ORDER BY place`,
    );
    const order = admitted.map(({ token }) => Number(token));
    expect(order).toEqual([...order].sort((a, b) => a - b));
    expect(order.at(-1)).toBe(20);
    expect(outcomes.filter((outcome) => outcome === "admitted")).toHaveLength(order.length);
  });
});

describe.each(DIALECTS)("a deadlock on %s", (dialect) => {
  test("comes out as the database's own error, to be tried again", async () => {
    const item = await stocked(dialect);
    const [one, other] = [await begin(dialect), await begin(dialect)];
    await write(one, item, 6);
    await other.fence(item, 2n);
    const writing = write(other, item, 5).then(
      () => "written",
      (error: { code: string }) => error.code,
    );
    await sleep(50);
    const fencing = await outcomeOf(one.fence(item, 1n));
    await one.end("ROLLBACK");
    const outcomes = [fencing, await writing];
    expect(outcomes.filter((outcome) => outcome === "try again" || TRY_AGAIN.test(outcome))).toHaveLength(1);
  });
});

describe("MySQL", () => {
  test.each([true, false])("the flag that counts found rows makes no difference: %s", async (found) => {
    const connection = await mysql.createConnection({
      uri: URLS.mysql,
      flags: [found ? "FOUND_ROWS" : "-FOUND_ROWS"],
    });
    onTestFinished(() => connection.end());
    const name = `flags:${randomUUID()}`;
    await connection.beginTransaction();
    for (const token of [2n, 2n, 3n]) await fence(connection, { name, token });
    await expect(fence(connection, { name, token: 2n })).rejects.toMatchObject({ highest: 3n });
  });

  test("a connection that is told not to cast what it reads makes no difference", async () => {
    const connection = await mysql.createConnection({ uri: URLS.mysql, typeCast: false });
    onTestFinished(() => connection.end());
    const name = `bytes:${randomUUID()}`;
    await connection.beginTransaction();
    await fence(connection, { name, token: 3n });
    await expect(fence(connection, { name, token: 2n })).rejects.toMatchObject({ highest: 3n });
  });
});
