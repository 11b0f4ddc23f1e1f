import { Redis } from "ioredis";
import Libsql from "libsql";
import { connect, createLocks, isLockError } from "locktender";
import { etcd } from "locktender/etcd";
import { fence, fencedSet, type RedisLike, redisStore, type Transaction } from "locktender/fence";
import { mysql } from "locktender/mysql";
import { postgres } from "locktender/postgres";
import { redis } from "locktender/redis";
import { redlock } from "locktender/redlock";
import { sqlite } from "locktender/sqlite";
import { zookeeper } from "locktender/zookeeper";
import mariadb from "mariadb";
import mysql2 from "mysql2";
import pg from "pg";
import postgresJs from "postgres";
import { createClient, createClientPool } from "redis";
import { afterAll, describe, expect, test } from "vitest";

/** Nothing listens there: none of these clients is ever used. */
const NOWHERE = { host: "127.0.0.1", port: 1 };
const ignore = () => {};
const LEASE = { name: "a", token: 1n };

const lazy = new Redis({ ...NOWHERE, lazyConnect: true });
const nodeRedis = createClient({ socket: NOWHERE });
const mariadbPool = mariadb.createPool(NOWHERE);
const mysql2Pool = mysql2.createPool(NOWHERE);
const mysql2Connection = mysql2.createConnection(NOWHERE);
const pgPool = new pg.Pool(NOWHERE);
const file = new Libsql(":memory:");
lazy.on("error", ignore);
nodeRedis.on("error", ignore);
mysql2Connection.on("error", ignore);
afterAll(async () => {
  lazy.disconnect();
  mysql2Connection.destroy();
  file.close();
  await Promise.allSettled([mariadbPool.end(), mysql2Pool.promise().end(), pgPool.end()]);
});

const throwing = () => {
  throw new Error("must not be looked at");
};
/** Clients of no library. */
const NO_CLIENTS: Readonly<Record<string, unknown>> = {
  null: null,
  "a number": 5,
  "a string": "redis://127.0.0.1",
  "an empty object": {},
  "an object without a prototype": Object.create(null),
  "a list": [],
  "a function": throwing,
  "a promise of a client": Promise.resolve(lazy),
  "a Proxy that throws": new Proxy({}, { get: throwing, has: throwing, getPrototypeOf: throwing }),
  "an object whose getters throw": Object.defineProperties(
    {},
    Object.fromEntries(
      ["evalsha", "evalSha", "getConnection", "promise", "connect", "prepare", "query", "dialect"].map(
        (name) => [name, { get: throwing }],
      ),
    ),
  ),
};
/** Those of other libraries, and those of ours in another place. */
const REDIS = { "a client of ioredis": lazy, "a client of node-redis": nodeRedis };
const MYSQL = { "a pool of mysql2": mysql2Pool, "a pool of mysql2/promise": mysql2Pool.promise() };
const DATABASES = { "a pool of pg": pgPool, "a database of libsql": file };
const STRANGERS: Readonly<Record<string, unknown>> = {
  "what looks like a client of valkey-glide": {
    customCommand: throwing,
    invokeScript: throwing,
    subscribe: throwing,
    close: throwing,
  },
  "a pool of mariadb": mariadbPool,
  "a single connection of mysql2": mysql2Connection,
  "a cluster of pools of mysql2": mysql2.createPoolCluster(),
  "a Client of pg": new pg.Client(NOWHERE),
  "a pipeline of ioredis": lazy.pipeline(),
  "a pool of node-redis": createClientPool({ socket: NOWHERE }),
  "a transaction of node-redis": nodeRedis.multi(),
};

type Wrong = Readonly<Record<string, unknown>>;
const ENGINES: Readonly<Record<string, { make(given: never): unknown; wrong: Wrong }>> = {
  redis: { make: (client) => redis({ client }), wrong: { ...STRANGERS, ...MYSQL, ...DATABASES } },
  redlock: {
    make: (client) => redlock({ clients: [client, lazy, nodeRedis] }),
    wrong: { ...STRANGERS, ...MYSQL, ...DATABASES },
  },
  mysql: { make: (pool) => mysql({ pool }), wrong: { ...STRANGERS, ...REDIS, ...DATABASES } },
  postgres: {
    make: (pool) => postgres({ pool }),
    wrong: { ...STRANGERS, ...REDIS, ...MYSQL, "a database of libsql": file },
  },
  sqlite: {
    make: (database) => sqlite({ database }),
    wrong: { ...STRANGERS, ...REDIS, ...MYSQL, "a pool of pg": pgPool },
  },
};

describe.each(Object.entries(ENGINES))("%s", (_engine, { make, wrong }) => {
  test.each(Object.entries({ ...NO_CLIENTS, ...wrong }))(
    "refuses %s, and calls nothing on it",
    async (_, given) => {
      expect(() => make(given as never)).toThrow(
        expect.objectContaining({ code: "invalid-option", message: expect.stringMatching(/must be/) }),
      );
    },
  );
});

test("a pool of mariadb is refused with the name of the package to use, and does not compile", () => {
  // @ts-expect-error Its connections would not take our questions.
  expect(() => mysql({ pool: mariadbPool })).toThrow(/mysql2.*mariadb.*mysql2 speaks to MariaDB/);
});

test("nor do a pool of node-redis and a single client of pg", () => {
  // @ts-expect-error It has no subscriptions.
  expect(() => redis({ client: createClientPool({ socket: NOWHERE }) })).toThrow(/A pool, a pipeline/);
  // @ts-expect-error It would be used for several things at a time.
  expect(() => postgres({ pool: new pg.Client(NOWHERE) })).toThrow(/A single client/);
});

describe("fences", () => {
  const { "a pool of node-redis": _, ...others } = STRANGERS;
  test.each(Object.entries({ ...NO_CLIENTS, ...others, ...MYSQL, ...DATABASES }))(
    "on Redis refuse %s",
    async (_, given) => {
      const client = given as unknown as RedisLike;
      for (const asked of [fencedSet(client, LEASE, "a", "b"), redisStore(client).raise("a", 1n)]) {
        await expect(asked).rejects.toMatchObject({ code: "invalid-option" });
      }
    },
  );

  const mariadbConnection = { beginTransaction: throwing, query: throwing, batch: throwing };
  test.each(
    Object.entries({
      ...NO_CLIENTS,
      ...REDIS,
      ...MYSQL,
      "a connection of mariadb": mariadbConnection,
      pgPool,
    }),
  )("in a database refuse %s", async (_, given) => {
    // One that answers at once throws at once.
    const asked = (async () => fence(given as Transaction, LEASE))();
    await expect(asked).rejects.toMatchObject({ code: "invalid-option" });
  });
});

const CLOSED = {
  ioredis: () => {
    const client = new Redis({ ...NOWHERE, lazyConnect: true });
    client.disconnect();
    return redis({ client, timeout: "1s" });
  },
  "node-redis": () => redis({ client: createClient({ socket: NOWHERE }), timeout: "1s" }),
  mysql2: async () => {
    const pool = mysql2.createPool(NOWHERE);
    await pool.promise().end();
    return mysql({ pool, timeout: "1s" });
  },
  pg: async () => {
    const pool = new pg.Pool(NOWHERE);
    await pool.end();
    return postgres({ pool, timeout: "1s" });
  },
  libsql: () => {
    const database = new Libsql(":memory:");
    const backend = sqlite({ database });
    database.close();
    return backend;
  },
};

describe("a client or pool that is closed is an error of the engine", () => {
  test.each(Object.entries(CLOSED))("%s", async (_, make) => {
    const locks = createLocks(await make());
    const error = await locks
      .mutex("a")
      .acquire({ wait: 0 })
      .catch((thrown: unknown) => thrown);
    expect(isLockError(error, "backend")).toBe(true);
    await locks.close();
  });
});

test("a database of libsql that is closed is refused, and one that is closed while it is used is an error", async () => {
  const database = new Libsql(":memory:");
  const locks = createLocks(sqlite({ database }));
  const lease = await locks.mutex("a").acquire();
  database.close();
  await expect(locks.mutex("b").acquire({ wait: 0 })).rejects.toMatchObject({ code: "backend" });
  await expect(lease.release()).rejects.toMatchObject({ code: "backend" });
  await locks.close();
  expect(() => sqlite({ database })).toThrow(expect.objectContaining({ code: "invalid-option" }));
  expect(() => fence(database, LEASE)).toThrow(expect.objectContaining({ code: "invalid-option" }));
});

/** What callers have at hand, the engine that takes it, and as which option. */
const AT_HAND: Readonly<Record<string, readonly [given: unknown, engine: string, option: string]>> = {
  "a client of ioredis": [lazy, "redis", "client"],
  "a client of node-redis": [nodeRedis, "redis", "client"],
  "a list of clients": [[lazy, nodeRedis], "redlock", "clients"],
  "a pool of pg": [pgPool, "postgres", "pool"],
  "what postgres.js makes": [postgresJs("postgres://127.0.0.1:1"), "postgres", "sql"],
  "a pool of mysql2": [mysql2Pool, "mysql", "pool"],
  "a pool of mysql2/promise": [mysql2Pool.promise(), "mysql", "pool"],
  "a database of libsql": [file, "sqlite", "database"],
};
const MAKERS = { redis, redlock, postgres, mysql, sqlite, etcd, zookeeper };

const invalid = (message: string) => ({
  code: "invalid-option",
  message: expect.stringContaining(message),
});

async function thrownBy(work: () => unknown): Promise<unknown> {
  try {
    return await work();
  } catch (error) {
    return error;
  }
}

describe("in the wrong place, the error shows the call that is meant", () => {
  test.each(Object.entries(AT_HAND))("%s", async (_, [given, engine, option]) => {
    const call = `${engine}({ ${option} })`;
    const whole = `createLocks(${call}), with ${engine} of "locktender/${engine}"`;
    expect(await thrownBy(() => connect(given as never))).toMatchObject(invalid(whole));
    expect(await thrownBy(() => createLocks(given as never))).toMatchObject(invalid(whole));
    for (const make of Object.values<(options: never) => unknown>(MAKERS)) {
      expect(await thrownBy(() => make(given as never))).toMatchObject(invalid(`Write ${call}.`));
    }
    const urls: Readonly<Record<string, string>> = {
      sqlite: "sqlite:",
      redlock: "redlock://a,b,c",
      mysql: "mysql://h/db",
    };
    const url = urls[engine] ?? `${engine}://h`;
    expect(await thrownBy(() => connect(url, { engine: { [option]: given } as never }))).toMatchObject(
      invalid(whole),
    );
    expect(await thrownBy(() => connect(url, { [option]: given } as never))).toMatchObject(invalid(whole));
  });

  test("a URL, whose password is not repeated", async () => {
    const url = "redis://:s3cr3t@h";
    expect(await thrownBy(() => createLocks(url as never))).toMatchObject(
      invalid("Write await connect(url)."),
    );
    for (const [name, make] of Object.entries<(options: never) => unknown>(MAKERS)) {
      const error = await thrownBy(() => make(url as never));
      expect(error).toMatchObject(invalid(`Write ${name}({ ${name === "sqlite" ? "file" : "url"} }).`));
      expect(String(error)).not.toContain("s3cr3t");
    }
    expect(await thrownBy(() => connect(url, { engine: { url } as never }))).toMatchObject(
      invalid('"url" is not taken, because the URL says it'),
    );
  });
});
