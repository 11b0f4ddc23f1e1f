import { randomUUID } from "node:crypto";
import { isLockError } from "locktender";
import { type Dialect, type Executor, fence, fenceTable } from "locktender/fence";
import type pg from "pg";
import { describe, expect, test } from "vitest";
import { betterSqlite3, NOT_INSTALLED } from "../engines/sqlite/better-sqlite3.js";
import { libsql, type OpenSqlite, pgPool, prismaLike, sqliteFile, sqliteWriter, WRITERS } from "./writers.js";

describe.each(Object.entries(WRITERS))("%s", (_, { write, careless, lines }) => {
  test("a token is admitted, again and again, until a newer one was seen; a stale one writes nothing", async () => {
    const name = `stock:${randomUUID()}`;
    const mine = async () =>
      ((await lines()) as { line: string }[]).filter(({ line }) => line.startsWith(name));
    // Beyond what a number holds: these would all be one.
    const [old, next] = [9_007_199_254_740_992n, 9_007_199_254_740_993n];
    await write({ name, token: old }, `${name} 1`);
    await write({ name, token: old }, `${name} 2`);
    await write({ name, token: next.toString() }, `${name} 3`);
    const refused = await (async () => write({ name, token: old }, `${name} late`))().catch(
      (error: unknown) => error,
    );
    if (!isLockError(refused, "stale-token")) throw refused;
    expect(refused).toMatchObject({
      lock: name,
      resource: name,
      token: old,
      highest: next,
      retryable: false,
    });
    expect(await mine()).toEqual([1, 2, 3].map((number) => ({ line: `${name} ${number}` })));
  });

  test("without a transaction it is refused", async () => {
    const refused = (async () => careless({ name: "a", token: 1n }))();
    await expect(refused).rejects.toThrow(/is not in a transaction/);
    await expect(refused).rejects.toMatchObject({ code: "invalid-option" });
  });
});

test("a BEGIN that is still on its way to PostgreSQL is one", async () => {
  const client = await pgPool.connect();
  const begun = client.query("BEGIN");
  await fence(client, { name: "on its way", token: 1n });
  await begun;
  await client.query("ROLLBACK");
  client.release();
});

test("of a client that does not know whether it is in a transaction, PostgreSQL is asked", async () => {
  const client = await pgPool.connect();
  // As pg was before version 8.21, and as others are that are like it.
  const older = { query: (sql: string) => client.query(sql) };
  const name = `older:${randomUUID()}`;
  await expect(fence(older, { name, token: 1n })).rejects.toThrow(/is not in a transaction/);
  await client.query("BEGIN");
  await fence(older, { name, token: 2n });
  await expect(fence(older, { name, token: 1n })).rejects.toMatchObject({ highest: 2n });
  await client.query("ROLLBACK");
  client.release();
});

describe("what answers at once", () => {
  test("is fenced at once: nothing else of the process gets between the fence and the write", () => {
    const token = 5n;
    libsql.transaction(() => expect(fence(libsql, { name: "at once", token })).toBeUndefined())();
    const late = libsql.transaction(() => fence(libsql, { name: "at once", token: 4n }));
    expect(() => late()).toThrow(/the token 4 of "at once" is stale/);
  });

  test("a database that does not know whether it is in a transaction is tried", () => {
    // As node:sqlite was before Node.js 22.16.
    const db = sqliteFile();
    const older = { prepare: (sql: string) => db.prepare(sql), exec: (sql: string) => db.exec(sql) };
    const careless = () => fence(older, { name: "older", token: 1n });
    expect(careless).toThrow(/is not in a transaction/);
    expect(db.inTransaction).toBe(false);
    db.exec("BEGIN");
    fence(older, { name: "older", token: 2n });
    expect(careless).toThrow(/is stale/);
    expect(db.inTransaction).toBe(true);
  });

  const Library = betterSqlite3() as unknown as OpenSqlite | undefined;
  test.skipIf(Library === undefined)(`the same by better-sqlite3 (${NOT_INSTALLED})`, () => {
    const { write, careless } = sqliteWriter(sqliteFile(Library));
    write({ name: "a", token: 2n }, "a");
    expect(() => write({ name: "a", token: 1n }, "b")).toThrow(/is stale/);
    expect(() => careless({ name: "a", token: 3n })).toThrow(/is not in a transaction/);
  });

  const builtIn: unknown = process.getBuiltinModule?.("node:sqlite" as "node:os");
  test.skipIf(builtIn === undefined)("the same by node:sqlite, where Node.js has it", () => {
    const db = sqliteFile((builtIn as { DatabaseSync: OpenSqlite }).DatabaseSync);
    db.exec("BEGIN");
    fence(db, { name: "a", token: 2n });
    expect(() => fence(db, { name: "a", token: 1n })).toThrow(/is stale/);
    db.exec("ROLLBACK");
    expect(() => fence(db, { name: "a", token: 3n })).toThrow(/is not in a transaction/);
  });
});

describe("an executor of one's own", () => {
  const asked: string[] = [];
  const executor: Executor = {
    dialect: "sqlite",
    query: async (sql) => {
      asked.push(sql);
      return libsql.prepare(sql).all();
    },
  };

  test("is one function that gives rows", async () => {
    await fence(executor, { name: "own", token: 7n });
    await expect(fence(executor, { name: "own", token: 6n })).rejects.toMatchObject({ highest: 7n });
  });

  test("gets nothing but hex and digits of what came from outside", async () => {
    await fence(executor, { name: `'; DROP TABLE paper; -- @token "\\`, token: "12" });
    expect(asked.at(-1)).not.toContain("DROP");
  });

  test("that gives no rows, or not as objects, is found out", async () => {
    for (const rows of [[], [["7"]], [{}], { rows: [{ token: "7" }] }, undefined]) {
      const wrong = { ...executor, query: async () => rows as never };
      await expect(fence(wrong, { name: "own", token: 7n })).rejects.toThrow(/no row with a token/);
      const atOnce = { ...executor, query: () => rows as never };
      await expect(fence(atOnce, { name: "own", token: 7n })).rejects.toThrow(/no row with a token/);
    }
  });
});

describe("invalid input", () => {
  test.each([
    ["nothing", undefined],
    ["a text", "BEGIN"],
    ["an object of another kind", {}],
    ["an object of no kind", Object.create(null)],
    ["an executor for another database", { dialect: "oracle", query: async () => [] }],
  ])("is refused: %s", async (_, tx) => {
    await expect(fence(tx as never, { name: "a", token: 1n })).rejects.toMatchObject({
      code: "invalid-option",
    });
  });

  test("a transaction that is a function, as with knex: it is said how to make an executor of it", async () => {
    const tagged = Object.assign(() => {}, { raw: async () => [] });
    const refused = fence(tagged as never, { name: "a", token: 1n });
    await expect(refused).rejects.toThrow(/Give an executor: { dialect, query\(sql\) }/);
  });

  test("Prisma without the dialect, and a dialect that does not exist", async () => {
    const tx = prismaLike({} as pg.PoolClient);
    await expect(fence(tx as never, { name: "a", token: 1n })).rejects.toThrow(/Say it: { dialect/);
    const oracle = fence(tx, { name: "a", token: 1n }, { dialect: "oracle" as Dialect });
    await expect(oracle).rejects.toThrow(/the dialect is/);
    expect(() => fenceTable("oracle" as Dialect)).toThrow(/the dialect is/);
  });
});
