import { randomBytes } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { drizzle } from "drizzle-orm/node-postgres";
import { Kysely, PostgresDialect } from "kysely";
import Database from "libsql";
import { connect, type Locks } from "locktender";
import { type Executor, type Fenced, type FenceRefused, fence, fenceTable } from "locktender/fence";
import mysql from "mysql2/promise";
import pg from "pg";
import { afterAll, afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { freshDatabase, freshDatabaseWith } from "./servers.js";

const GREATEST = 2n ** 63n - 1n;

function sqlite(): Executor {
  const db = new Database(":memory:");
  db.exec(fenceTable("sqlite"));
  return { dialect: "sqlite", query: async (sql) => db.prepare(sql).all() };
}

/** Fails if it is asked. */
const untouched: Executor = {
  dialect: "sqlite",
  query: () => {
    throw new Error("the database was asked");
  },
};

describe("tokens", () => {
  test.each([0n, 1n, GREATEST, "0", "1837880256828234752", GREATEST.toString()])(
    "%s is one",
    async (token) => {
      await fence(sqlite(), { name: "a", token });
    },
  );

  test.each([
    -1n,
    GREATEST + 1n,
    "",
    "-1",
    "1.5",
    "1e3",
    " 1",
    "01",
    "0x1",
    "1n",
    "9223372036854775808",
    5,
    null,
    {},
  ])("%s is none", async (token) => {
    const refused = fence(untouched, { name: "a", token } as Fenced);
    await expect(refused).rejects.toMatchObject({ code: "invalid-token", lock: "a" });
  });

  test("are compared as 64 bits", async () => {
    const tx = sqlite();
    await fence(tx, { name: "a", token: GREATEST });
    const refused = fence(tx, { name: "a", token: GREATEST - 1n });
    await expect(refused).rejects.toMatchObject({ token: GREATEST - 1n, highest: GREATEST });
  });

  test("a stale one is told with what to do, and on a channel", async () => {
    const events: FenceRefused[] = [];
    const listen = (event: unknown) => void events.push(event as FenceRefused);
    subscribe("locktender:fence-refused", listen);
    onTestFinished(() => void unsubscribe("locktender:fence-refused", listen));
    const tx = sqlite();
    await fence(tx, { name: "stock:lamp", token: 15n }, { resource: "shelf" });
    const refused = fence(tx, { name: "stock:lamp", token: 12n }, { resource: "shelf" });
    await expect(refused).rejects.toThrow(`the token 12 of "stock:lamp" is stale: "shelf" has seen 15
  another holder has been let in since, so nothing was written
  roll back, stop what this lease was for, and take the lock anew`);
    const about = { name: "stock:lamp", group: "stock", resource: "shelf", token: "12", highest: "15" };
    expect(events).toEqual([{ type: "fence-refused", ...about }]);
  });
});

describe("leases", () => {
  let locks: Locks;
  beforeEach(async () => {
    locks = await connect("memory:");
  });
  afterEach(() => locks.close({ drain: 0, abort: 0 }));

  test("are admitted while they are held, and of a multi-lock, each part", async () => {
    const tx = sqlite();
    await locks.mutex("a").run((lease) => fence(tx, lease));
    await locks.readWrite("b").write.run((lease) => fence(tx, lease));
    await locks.all([locks.mutex("c"), locks.mutex("d")]).run(async ({ parts }) => {
      for (const part of parts) await fence(tx, part);
    });
  });

  test("that are shared, or a multi-lock, have no token: they do not compile, and are refused", async () => {
    await using reader = await locks.readWrite("b").read.acquire();
    await using permit = await locks.semaphore("c", 2).acquire();
    await using both = await locks.all([locks.mutex("d"), locks.mutex("e")]).acquire();
    // @ts-expect-error A reader's lease fences no other writer.
    const byReader = fence(untouched, reader);
    // @ts-expect-error A permit fences no other writer.
    const byPermit = fence(untouched, permit);
    // @ts-expect-error Which of them is meant?
    const byBoth = fence(untouched, both);
    for (const refused of [byReader, byPermit, byBoth]) {
      await expect(refused).rejects.toThrow(/has no token/);
    }
  });

  test("that are known to be lost or released fail before the database is asked", async () => {
    const lost = await locks.mutex("a").acquire();
    await locks.forceRelease("a", { reason: "a test" });
    await expect.poll(() => lost.held).toBe(false);
    await expect(fence(untouched, lost)).rejects.toMatchObject({ code: "lost", loss: "forced" });
    const released = await locks.mutex("b").acquire();
    await released.release();
    await expect(fence(untouched, released)).rejects.toMatchObject({ code: "closed" });
    // Where only the token counts, it alone is given.
    await fence(sqlite(), { name: released.name, token: released.token });
  });

  test.each([undefined, null, "a", 1n])("%s is none", async (lease) => {
    await expect(fence(untouched, lease as never)).rejects.toMatchObject({ code: "invalid-token" });
  });
});

describe("options", () => {
  test("resource: each has a newest token of its own, whatever the lock is called", async () => {
    const tx = sqlite();
    await fence(tx, { name: "stock:lamp", token: 5n }, { resource: ["shelf", "1"] });
    await fence(tx, { name: "stock:lamp", token: 4n });
    const refused = fence(tx, { name: "stock:lamp", token: 4n }, { resource: "shelf:1" });
    await expect(refused).rejects.toMatchObject({ lock: "stock:lamp", resource: "shelf:1", highest: 5n });
  });

  test("those that do not exist are refused", async () => {
    const misspelt = fence(untouched, { name: "a", token: 1n }, { ressource: "b" } as object);
    await expect(misspelt).rejects.toThrow(/there is no option "ressource"/);
  });
});

const postgresUrl = await freshDatabaseWith("postgres", fenceTable("postgres"));
const mysqlUrl = await freshDatabaseWith("mysql", fenceTable("mysql"));

async function withPg<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(url);
  await client.connect();
  await client.query("BEGIN");
  return work(client).finally(() => client.end());
}

async function withMysql<T>(
  options: mysql.ConnectionOptions,
  work: (tx: mysql.Connection) => Promise<T>,
): Promise<T> {
  const connection = await mysql.createConnection(options);
  await connection.beginTransaction();
  return work(connection).finally(() => connection.end());
}

describe("names", () => {
  /** Each of these is another name, however much they look alike to a collation or a narrow character set. */
  const NAMES = [
    "lamp",
    "Lamp",
    "lamp ",
    "l\u00e1mp",
    "la\u0301mp",
    "\u041b\u0430\u043c\u043f\u0430",
    "\u0424\u0430\u043c\u043f\u0430",
    "\u{1f4a1}",
    "\u{1f526}",
    "it's; -- \\ \" % @name @token {a} $1 ?",
    "\u00e9".repeat(127),
    "x".repeat(255),
  ];

  async function allApart(tx: Executor | pg.Client | mysql.Connection): Promise<void> {
    for (const [index, name] of NAMES.entries()) await fence(tx, { name, token: BigInt(100 - index) });
    for (const [index, name] of NAMES.entries()) {
      const highest = BigInt(100 - index);
      const late = fence(tx, { name, token: highest - 1n });
      await expect(late).rejects.toMatchObject({ lock: name, highest });
    }
  }

  test("are compared byte by byte on PostgreSQL", () => withPg(postgresUrl, allApart));

  test.each(["utf8mb4", "latin1"])("are compared byte by byte on MySQL, over a connection in %s", (charset) =>
    withMysql({ uri: mysqlUrl, charset }, allApart),
  );

  test("are compared byte by byte on SQLite, also in a file in UTF-16", async () => {
    await allApart(sqlite());
    const db = new Database(":memory:");
    db.exec(`PRAGMA encoding = 'UTF-16le'; ${fenceTable("sqlite")}`);
    const wide: Executor = { dialect: "sqlite", query: async (sql) => db.prepare(sql).all() };
    await allApart(wide);
  });

  test("can be read by people on PostgreSQL", async () => {
    await withPg(postgresUrl, async (client) => {
      await fence(client, { name: NAMES[5] ?? "", token: 3n });
      const { rows } = await client.query("SELECT name, token FROM locktender_fence");
      expect(rows).toEqual([{ name: NAMES[5], token: "3" }]);
    });
  });

  test.each(["", "a\nb", "\ud800", "x".repeat(256), undefined, 5])("%j is none", async (name) => {
    const refused = fence(untouched, { name, token: 1n } as Fenced);
    await expect(refused).rejects.toMatchObject({ code: "invalid-name" });
  });
});

describe("a user with no more rights than SELECT, INSERT and UPDATE on the table", () => {
  const user = `writer_${randomBytes(6).toString("hex")}`;
  const lease = { name: "a", token: 1n };
  const as = (url: string) => Object.assign(new URL(url), { username: user, password: "secret" }).href;

  test("is enough on PostgreSQL", async () => {
    const owner = new pg.Client(postgresUrl);
    await owner.connect();
    await owner.query(`CREATE ROLE ${user} LOGIN PASSWORD 'secret'`);
    await owner.query(`GRANT SELECT, INSERT, UPDATE ON locktender_fence TO ${user}`);
    await withPg(as(postgresUrl), async (client) => {
      await fence(client, lease);
      await expect(client.query("DELETE FROM locktender_fence")).rejects.toThrow(/permission denied/);
    });
    await owner.query(`DROP OWNED BY ${user}; DROP ROLE ${user}`);
    await owner.end();
  });

  test("is enough on MySQL", async () => {
    const owner = await mysql.createConnection(mysqlUrl);
    await owner.query(`CREATE USER ${user}@'%' IDENTIFIED BY 'secret'`);
    await owner.query(`GRANT SELECT, INSERT, UPDATE ON locktender_fence TO ${user}@'%'`);
    await withMysql({ uri: as(mysqlUrl) }, async (connection) => {
      await fence(connection, lease);
      await expect(connection.query("DELETE FROM locktender_fence")).rejects.toThrow(/denied/);
    });
    await owner.query(`DROP USER ${user}@'%'`);
    await owner.end();
  });
});

describe("without its table", async () => {
  const bare = { postgres: await freshDatabase("postgres"), mysql: await freshDatabase("mysql") };
  const pool = new pg.Pool({ connectionString: bare.postgres });
  afterAll(() => pool.end());
  const lease = { name: "a", token: 1n };
  const prisma = (meta: object) => {
    const error = Object.assign(new Error("Raw query failed"), { code: "P2010", meta });
    return fence({ $queryRawUnsafe: () => Promise.reject(error) }, lease, { dialect: "postgres" });
  };
  const TRIES: Readonly<Record<string, () => unknown>> = {
    pg: () => withPg(bare.postgres, (client) => fence(client, lease)),
    mysql2: () => withMysql({ uri: bare.mysql }, (connection) => fence(connection, lease)),
    libsql: () => {
      const db = new Database(":memory:");
      return db.transaction(() => fence(db, lease))();
    },
    Kysely: () =>
      new Kysely({ dialect: new PostgresDialect({ pool }) }).transaction().execute((tx) => fence(tx, lease)),
    Drizzle: () => drizzle({ client: pool }).transaction((tx) => fence(tx, lease)),
    "what Prisma 6 throws": () => prisma({ code: "42P01" }),
    "what Prisma 7 throws": () =>
      prisma({ driverAdapterError: { name: "DriverAdapterError", cause: { originalCode: "1146" } } }),
  };

  test.each(Object.entries(TRIES))("it says how to make it: %s", async (_, attempt) => {
    const refused = (async () => attempt())();
    await expect(refused).rejects.toThrow(
      /locktender_fence is missing .* fenceTable\("(postgres|mysql|sqlite)"\)/,
    );
    await expect(refused).rejects.toMatchObject({ code: "unsupported", cause: expect.any(Error) });
  });

  test("making it twice does no harm", async () => {
    const db = new Database(":memory:");
    for (const _ of [1, 2]) db.exec(fenceTable("sqlite"));
    for (const _ of [1, 2]) await pool.query(fenceTable("postgres"));
    await withMysql({ uri: bare.mysql }, async (connection) => {
      for (const _ of [1, 2]) await connection.query(fenceTable("mysql"));
    });
  });
});
