import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import Libsql from "libsql";
import { createLocks, type Locks } from "locktender";
import { mysql } from "locktender/mysql";
import { postgres } from "locktender/postgres";
import { redis } from "locktender/redis";
import { redlock } from "locktender/redlock";
import { type SqliteOptions, sqlite } from "locktender/sqlite";
import { createPool } from "mysql2/promise";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { database } from "../engines/databases/shared-database.js";
import { declareNew } from "../engines/redlock/harness.js";
import { shared } from "../servers/shared.js";
import { hostsOf } from "../support/hosts-of.js";

type Alter = (reply: unknown) => unknown;

/** An engine on a real server, whose replies are changed before the engine sees them. */
interface Altered {
  readonly backend: Backend;
  alter: Alter;
}

const newPrefix = () => `t${randomUUID().slice(0, 8)}`;
const asItIs: Alter = (reply) => reply;

function alteredRedis(client: Redis, altered: { alter: Alter }): Redis {
  onTestFinished(() => client.disconnect());
  const { evalsha, eval: evaluate, scan } = client;
  const ask =
    (command: (...args: never[]) => Promise<unknown>) =>
    async (...args: never[]) =>
      altered.alter(await command.apply(client, args));
  return Object.assign(client, { evalsha: ask(evalsha), eval: ask(evaluate), scan: ask(scan) });
}

const ENGINES: Readonly<Record<string, () => Promise<Altered>>> = {
  redis: async () => {
    const altered = { alter: asItIs };
    const client = alteredRedis(new Redis((await shared("redis")).url), altered);
    return Object.assign(altered, { backend: redis({ client, prefix: newPrefix() }) });
  },
  redlock: async () => {
    const altered = { alter: asItIs };
    const hosts = hostsOf((await shared("redlock")).url).slice(0, 3);
    const prefix = newPrefix();
    await declareNew(
      hosts.map(({ port }) => port),
      prefix,
      60_000,
    );
    const clients = hosts.map(({ host, port }) => alteredRedis(new Redis(port, host), altered));
    return Object.assign(altered, { backend: redlock({ clients, prefix, maxTtl: "1m" }) });
  },
  postgres: async () => {
    const altered = { alter: asItIs };
    const pool = new pg.Pool({ connectionString: (await database("postgres")).url, max: 4 });
    onTestFinished(() => pool.end());
    const connect = pool.connect.bind(pool);
    const changed = async () => {
      const client = await connect();
      const query = client.query.bind(client) as (...args: unknown[]) => Promise<{ rows: unknown }>;
      return Object.assign(Object.create(client), {
        query: async (...args: unknown[]) => {
          const result = await query(...args);
          return isCall(args[0]) ? { ...result, rows: altered.alter(result.rows) } : result;
        },
      });
    };
    Object.assign(pool, { connect: changed });
    return Object.assign(altered, { backend: postgres({ pool, prefix: newPrefix(), listen: false }) });
  },
  mysql: async () => {
    const altered = { alter: asItIs };
    const pool = createPool({ uri: (await database("mariadb")).url, connectionLimit: 4 });
    onTestFinished(() => pool.end());
    const getConnection = pool.getConnection.bind(pool);
    const changed = async () => {
      const connection = await getConnection();
      const execute = connection.execute.bind(connection) as (query: unknown) => Promise<unknown[]>;
      return Object.assign(Object.create(connection), {
        execute: async (query: unknown) => {
          const [results, ...rest] = await execute(query);
          return [isCall(query) ? altered.alter(results) : results, ...rest];
        },
      });
    };
    Object.assign(pool, { getConnection: changed });
    return Object.assign(altered, { backend: mysql({ pool, prefix: newPrefix() }) });
  },
  sqlite: async () => {
    const altered = { alter: asItIs };
    const file = new Libsql(":memory:") as unknown as NonNullable<SqliteOptions["database"]>;
    onTestFinished(() => void file.close());
    const prepare = file.prepare.bind(file);
    const changed = (source: string) => {
      const statement = prepare(source);
      const all = statement.all.bind(statement);
      return Object.assign(statement, { all: (...given: unknown[]) => altered.alter(all(...given)) });
    };
    return Object.assign(altered, {
      backend: sqlite({ database: Object.assign(file, { prepare: changed }) }),
    });
  },
};

/** A call of a routine of ours, and not what is asked about the server or the schema. */
function isCall(query: unknown): boolean {
  const { text = "", sql = "" } = query as { text?: string; sql?: string };
  return /_r\d+\W?\(/.test(text + sql) && !/breaking/.test(text + sql);
}

async function open(engine: string): Promise<{ altered: Altered; locks: Locks }> {
  const altered = (await ENGINES[engine]?.()) as Altered;
  const locks = createLocks(altered.backend, { ttl: "5s" });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  // Connected, and what it needs is there.
  await locks.mutex("first").run(async () => {});
  return { altered, locks };
}

/** In place of a reply of a script. None of them is an answer to a claim or to a renewal. */
const NO_REPLIES: readonly unknown[] = [
  ...["", "-1", "x", -1, 0, true, false, 1.5, null, undefined, {}, [], [[]], [null], [true]],
  ...[["granted"], ["granted", "", 5], ["granted", -1, 5], ["granted", 5, "x"], ["granted", true, 5, 5]],
  ...[["gone"], ["gone", null], ["held", "x"], [["held", null]], [["gone", 5]], ["waiting", 5]],
];

/** What the other operations rightly understand of these. */
const UNDERSTOOD: Readonly<Record<string, readonly unknown[]>> = {
  release: [0, []],
  inspect: [[]],
  read: [[]],
};

describe.each(["redis", "redlock"])("%s: in place of the reply of a script", (engine) => {
  test.each(NO_REPLIES.map((reply) => [reply]))("%j", async (reply) => {
    const { altered, locks } = await open(engine);
    const { backend } = altered;
    await locks.mutex("held").acquire();
    const cell = engine === "redis" ? locks.cell("kept") : undefined;
    altered.alter = () => reply;
    const operations: Record<string, () => Promise<unknown> | undefined> = {
      claim: () => locks.mutex("tried").tryAcquire(),
      renew: async () => {
        const [renewal] = await backend.renew([{ name: "held", id: "x", ticket: 1n, ttlMs: 1_000 }]);
        if (renewal?.state === "unknown") throw renewal.error;
      },
      release: () => backend.release({ name: "held", id: "x" }),
      inspect: () => locks.inspect("held"),
      list: () => listed(locks),
      read: () => cell?.read(),
      write: () => cell?.write(1),
      update: () => cell?.update(() => 2),
      once: () => cell && locks.once("o", { keep: "1m" }, () => 1),
    };
    for (const [operation, ask] of Object.entries(operations)) {
      const outcome = await ask()?.then(() => "understood", asIs);
      if (outcome === undefined) continue;
      if (outcome === "understood") expect(UNDERSTOOD[operation], operation).toContainEqual(reply);
      else expect(outcome, operation).toMatchObject({ code: "backend" });
    }
    altered.alter = asItIs;
  });
});

const SQL_ENGINES = ["postgres", "mysql"];
/** In place of a column of a row. */
const NO_VALUES: readonly (readonly [column: string, value: unknown])[] = [
  ...["", "-1", "x", "0", true].map((value) => ["ticket", value] as const),
  ...["", "x", "1e3"].map((value) => ["remaining_us", value] as const),
  ...["", "yes", null].map((value) => ["verdict", value] as const),
];
const CLAIM = ["verdict", "ticket", "remaining_us"];

describe.each(SQL_ENGINES)("%s: in place of what a routine answers", (engine) => {
  test.each(NO_VALUES)("%s is %j", async (column, value) => {
    const { altered, locks } = await open(engine);
    altered.alter = inRows((row) => {
      if (typeof row.answer !== "string") return { ...row, [column]: value };
      const parts = row.answer.split("\u001f");
      parts[CLAIM.indexOf(column)] = String(value ?? "");
      return { ...row, answer: parts.join("\u001f") };
    });
    await expect(locks.mutex("tried").tryAcquire()).rejects.toMatchObject({ code: "backend" });
    altered.alter = asItIs;
  });

  test.each([[null], [undefined], ["no"], [[]], [[null]], [[5]], [[{}]], [[[{}]]], [[{ answer: 5 }]]])(
    "%j, as a whole",
    async (rows) => {
      const { altered, locks } = await open(engine);
      altered.alter = () => rows;
      await expect(locks.mutex("tried").tryAcquire()).rejects.toMatchObject({ code: "backend" });
      await expect(locks.cell("kept").write(1)).rejects.toMatchObject({ code: "backend" });
      altered.alter = asItIs;
    },
  );
});

describe.each([...SQL_ENGINES, "sqlite"])("%s: in place of what is kept", (engine) => {
  test.each([
    ["version", ""],
    ["version", "-1"],
    ["version", "x"],
    ["version", null],
    ["body", null],
    ["body", 5],
    ["body", "{"],
  ])("the %s of a cell is %j", async (column, value) => {
    const { altered, locks } = await open(engine);
    const cell = locks.cell("kept");
    await cell.write(1);
    altered.alter = inRows((row) => ({ ...row, [column]: value }));
    await expect(cell.read()).rejects.toMatchObject({ code: "backend" });
    const once = locks.once("kept", { keep: "1m" }, () => 1);
    await expect(once).rejects.toMatchObject({ code: "backend" });
    altered.alter = asItIs;
  });

  test.each([
    ["ticket", ""],
    ["ticket", "x"],
    ["weight", true],
    ["capacity", "-1"],
    ["id", null],
    ["age_us", ""],
  ])("the %s of a claim is %j", async (column, value) => {
    const { altered, locks } = await open(engine);
    await locks.mutex("held").acquire();
    altered.alter = inRows((row) => ({ ...row, [column]: value }));
    await expect(locks.inspect("held")).rejects.toMatchObject({ code: "backend" });
    await expect(listed(locks)).rejects.toMatchObject({ code: "backend" });
    altered.alter = asItIs;
  });
});

/** Rows may come in lists of lists. */
function inRows(change: (row: Record<string, unknown>) => unknown): Alter {
  return function changed(rows: unknown): unknown {
    if (Array.isArray(rows)) return rows.map(changed);
    return typeof rows === "object" && rows !== null ? change({ ...rows }) : rows;
  };
}

const asIs = (error: unknown) => error;

async function listed(locks: Locks): Promise<unknown> {
  const views: unknown[] = [];
  for await (const view of locks.list({})) views.push(view);
  return views;
}
