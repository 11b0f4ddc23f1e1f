import { randomBytes } from "node:crypto";
import { createConnection } from "mysql2/promise";
import { Client } from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { database } from "./shared-database.js";

const table = () => `facts_${randomBytes(6).toString("hex")}`;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

async function postgres(): Promise<Client> {
  const client = new Client({ connectionString: (await database("postgres")).url });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

async function mariadb() {
  const connection = await createConnection({
    uri: (await database("mariadb")).url,
    multipleStatements: true,
  });
  onTestFinished(() => connection.end());
  return connection;
}

describe("PostgreSQL", () => {
  test("behind a row lock clock_timestamp() is fresh, and now() is not", async () => {
    const [holder, waiter] = [await postgres(), await postgres()];
    const name = table();
    await holder.query(`CREATE TABLE ${name} (id int PRIMARY KEY, seen timestamptz, began timestamptz)`);
    onTestFinished(async () => void (await holder.query(`DROP TABLE ${name}`)));
    await holder.query(`INSERT INTO ${name} VALUES (1)`);
    await holder.query(`BEGIN; UPDATE ${name} SET id = 1`);
    const update = waiter.query(`UPDATE ${name} SET seen = clock_timestamp(), began = now() WHERE id = 1`);
    await sleep(300);
    await holder.query("COMMIT");
    await update;
    const { rows } = await holder.query(`SELECT extract(epoch FROM seen - began) * 1000 AS ms FROM ${name}`);
    expect(Number(rows[0].ms)).toBeGreaterThan(200);
  });

  test("a statement of a function sees what was committed while the one before it waited", async () => {
    const [holder, waiter] = [await postgres(), await postgres()];
    const name = table();
    await holder.query(
      `CREATE TABLE ${name} (id int PRIMARY KEY, n int); INSERT INTO ${name} VALUES (1, 0), (2, 0)`,
    );
    await holder.query(
      `CREATE FUNCTION f_${name}() RETURNS int LANGUAGE plpgsql AS $$ DECLARE v int; BEGIN
       PERFORM 1 FROM ${name} WHERE id = 1 FOR UPDATE; SELECT n FROM ${name} WHERE id = 2 INTO v; RETURN v; END $$`,
    );
    onTestFinished(async () => void (await holder.query(`DROP TABLE ${name}; DROP FUNCTION f_${name}()`)));
    await holder.query(`BEGIN; UPDATE ${name} SET n = 7`);
    const called = waiter.query(`SELECT f_${name}() AS n`);
    await sleep(100);
    await holder.query("COMMIT");
    expect((await called).rows).toEqual([{ n: 7 }]);
  });
});

describe("MariaDB", () => {
  test("in a procedure, UTC_TIMESTAMP is that of the statement: stale in one that waited, fresh in the next", async () => {
    const [holder, waiter] = [await mariadb(), await mariadb()];
    const name = table();
    await holder.query(
      `CREATE TABLE ${name} (id INT PRIMARY KEY, seen DATETIME(6)); INSERT INTO ${name} VALUES (1, NULL)`,
    );
    await holder.query(
      `CREATE PROCEDURE p_${name}() BEGIN UPDATE ${name} SET seen = UTC_TIMESTAMP(6);
       SELECT TIMESTAMPDIFF(MICROSECOND, seen, UTC_TIMESTAMP(6)) AS us FROM ${name}; END`,
    );
    onTestFinished(async () => void (await holder.query(`DROP TABLE ${name}; DROP PROCEDURE p_${name}`)));
    await holder.query(`BEGIN; UPDATE ${name} SET id = 1`);
    const called = waiter.query(`CALL p_${name}()`);
    await sleep(300);
    await holder.query("COMMIT");
    const [[[row]]] = (await called) as unknown as [[[{ us: number }]]];
    expect(Number(row.us)).toBeGreaterThan(200_000);
  });

  test("READ COMMITTED locks no gaps: an update of a missing row does not keep another transaction from inserting it", async () => {
    const [one, other] = [await mariadb(), await mariadb()];
    const name = table();
    await one.query(`CREATE TABLE ${name} (id INT PRIMARY KEY)`);
    onTestFinished(async () => void (await one.query(`DROP TABLE ${name}`)));
    for (const connection of [one, other])
      await connection.query(
        `SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; UPDATE ${name} SET id = 5 WHERE id = 5`,
      );
    await one.query(`INSERT INTO ${name} VALUES (5); COMMIT`);
    await other.query(`INSERT INTO ${name} VALUES (5) ON DUPLICATE KEY UPDATE id = id; COMMIT`);
  });

  test("a procedure has the character set of its maker's connection, not of its caller's", async () => {
    const maker = await mariadb();
    const name = table();
    await maker.query(
      `SET NAMES latin1; CREATE PROCEDURE ${name}() SELECT @@character_set_client AS charset`,
    );
    onTestFinished(async () => void (await maker.query(`DROP PROCEDURE ${name}`)));
    const [[[row]]] = (await (await mariadb()).query(`CALL ${name}()`)) as unknown as [
      [[{ charset: string }]],
    ];
    expect(row.charset).toBe("latin1");
  });
});
