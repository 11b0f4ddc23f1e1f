import { Redis } from "ioredis";
import { createLocks, isLockError } from "locktender";
import { type Executor, fence } from "locktender/fence";
import { mysql } from "locktender/mysql";
import { postgres } from "locktender/postgres";
import { redis } from "locktender/redis";
import { redlock } from "locktender/redlock";
import { sqlite } from "locktender/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { shared } from "../servers/shared.js";

const TIMEOUT = "200ms";
const LEASE = { name: "a", token: 1n };
const throwing = () => {
  throw new Error("a part that throws");
};
const unreadable = new Proxy({}, { get: throwing, has: throwing, getPrototypeOf: throwing });

/** What a method may do, of a client that the caller has wrapped, or that is broken. */
const BEHAVIOURS: Readonly<Record<string, () => unknown>> = {
  "throws undefined": () => {
    throw undefined;
  },
  "throws a string": () => {
    throw "no";
  },
  "throws what cannot be shown": () => {
    throw unreadable;
  },
  "rejects with undefined": () => Promise.reject(undefined),
  "rejects with a string": () => Promise.reject("no"),
  "rejects with an object without a prototype": () => Promise.reject(Object.create(null)),
  "rejects with what cannot be shown": () => Promise.reject(unreadable),
  "answers nothing": () => undefined,
  "answers null later": () => Promise.resolve(null),
  "answers with a text": () => Promise.resolve("no"),
  "answers with what cannot be read": () => Promise.resolve({ rows: unreadable }),
  "answers with what cannot even be waited for": () => unreadable,
  "never answers": () => new Promise(() => {}),
};

type Behave = () => unknown;

/** Methods of which no promise is expected. */
const AT_ONCE = [
  ...["on", "removeListener", "disconnect", "destroy", "duplicate", "pipeline"],
  ...["prepare", "exec", "run", "get", "all", "raw", "safeIntegers"],
];

function having(names: readonly string[], behave: Behave, others: object = {}): never {
  const atOnce = () => {
    const answer = behave();
    if (!(answer instanceof Promise)) return answer;
    answer.catch(() => undefined);
    return undefined;
  };
  const methods = names.map((name) => [name, AT_ONCE.includes(name) ? atOnce : behave]);
  return Object.assign(Object.fromEntries(methods), others) as never;
}

const ioredis = (behave: Behave) => {
  const commands = ["evalsha", "eval", "duplicate", "info", "scan", "on", "disconnect"];
  return having(commands, behave, { options: {} });
};
const nodeRedis = (behave: Behave) =>
  having(["evalSha", "eval", "sendCommand", "duplicate", "subscribe", "connect"], behave);

const PG_CLIENT = ["query", "on", "removeListener", "release"];
const MYSQL_CONNECTION = ["execute", "query", "release", "destroy"];
const STATEMENT = ["run", "get", "all", "raw", "safeIntegers"];
const pgPool = (connect: Behave) => having(["query"], connect, { connect, totalCount: 0 });
const mysqlPool = (getConnection: Behave) =>
  having([], getConnection, { getConnection, pool: { getConnection } });

const ENGINES: Readonly<Record<string, (behave: Behave) => Backend>> = {
  "redis by ioredis": (behave) => redis({ client: ioredis(behave), timeout: TIMEOUT }),
  "redis by node-redis": (behave) => redis({ client: nodeRedis(behave), timeout: TIMEOUT }),
  redlock: (behave) =>
    redlock({ clients: [ioredis(behave), nodeRedis(behave), ioredis(behave)], timeout: TIMEOUT }),
  "a pool of pg": (behave) => postgres({ pool: pgPool(behave), timeout: TIMEOUT }),
  "a client of a pool of pg": (behave) =>
    postgres({ pool: pgPool(async () => having(PG_CLIENT, behave)), timeout: TIMEOUT }),
  "a pool of mysql2": (behave) => mysql({ pool: mysqlPool(behave), timeout: TIMEOUT }),
  "a connection of a pool of mysql2": (behave) =>
    mysql({ pool: mysqlPool(async () => having(MYSQL_CONNECTION, behave)), timeout: TIMEOUT }),
  "a database of SQLite": (behave) =>
    sqlite({ database: having(["prepare", "exec"], behave, { open: true, inTransaction: false }) }),
  "a statement of SQLite": (behave) => {
    const prepare = () => having(STATEMENT, behave);
    const database = having(["exec"], () => undefined, { prepare, open: true, inTransaction: false });
    return sqlite({ database });
  },
};

describe.each(Object.entries(ENGINES))("%s", (_engine, make) => {
  // Should it end the process, or leave an unhandled rejection, the run fails, too.
  test.concurrent.each(Object.entries(BEHAVIOURS))("one that %s is a typed error", async (_, behave) => {
    const locks = createLocks(make(behave));
    const error = await locks
      .mutex("a")
      .acquire({ wait: 0 })
      .catch((thrown: unknown) => thrown);
    expect(isLockError(error)).toBe(true);
    expect(error).toMatchObject({ code: expect.stringMatching(/^(backend|unsupported|invalid-option)$/) });
    await locks.close();
  });
});

const { "never answers": _, ...answering } = BEHAVIOURS;
test.each(Object.entries(answering))("a fence lets no write pass by a client that %s", async (_, behave) => {
  const executor = { dialect: "postgres", query: behave } as Executor;
  for (const tx of [executor, having(["query"], behave)]) {
    const outcome = fence(tx, LEASE).then(
      () => "passed",
      () => "refused",
    );
    expect(await outcome).toBe("refused");
  }
});

test("a subscriber of a wrapped client that does not answer, and cannot be closed, ends no process", async () => {
  const client = new Redis((await shared("redis")).url);
  onTestFinished(() => client.disconnect());
  const subscribers: Redis[] = [];
  const duplicate = client.duplicate.bind(client);
  client.duplicate = (options) => {
    const subscriber = duplicate(options);
    subscribers.push(subscriber);
    return Object.assign(subscriber, { ping: () => new Promise(() => {}), disconnect: throwing });
  };
  const locks = createLocks(redis({ client, prefix: `strange-${process.pid}`, timeout: TIMEOUT }));
  const lease = await locks.mutex("a").acquire();
  const waiting = locks.mutex("a").acquire();
  // It is asked for a sign of life after five times the timeout.
  await expect.poll(() => subscribers.length, { timeout: 10_000 }).toBeGreaterThan(1);
  await lease.release();
  await (await waiting).release();
  await locks.close();
  for (const subscriber of subscribers) Redis.prototype.disconnect.call(subscriber);
});
