// A program of a user's, which uses every entry: test/typescript compiles and runs it as ES module and as CommonJS.
import { connect, isLockError, type Lease, type Locks, LockTimeoutError } from "locktender";
import { createLocks } from "locktender/core";
import { type EtcdOptions, etcd } from "locktender/etcd";
import { type Executor, fence, fenceTable } from "locktender/fence";
import { memory } from "locktender/memory";
import { type MysqlOptions, mysql } from "locktender/mysql";
import { type PostgresOptions, postgres } from "locktender/postgres";
import { type RedisOptions, redis } from "locktender/redis";
import { type RedlockOptions, redlock } from "locktender/redlock";
import { type SqliteOptions, sqlite } from "locktender/sqlite";
import { startFaultProxy } from "locktender/testing";
import { type ZooKeeperOptions, zookeeper } from "locktender/zookeeper";

interface AllOptions {
  etcd: EtcdOptions;
  mysql: MysqlOptions;
  postgres: PostgresOptions;
  redis: RedisOptions;
  redlock: RedlockOptions;
  sqlite: SqliteOptions;
  zookeeper: ZooKeeperOptions;
}

const options: AllOptions = {
  etcd: { url: "etcd://127.0.0.1" },
  mysql: { url: "mysql://127.0.0.1/locks" },
  postgres: { url: "postgres://127.0.0.1" },
  redis: { url: "redis://127.0.0.1" },
  redlock: { url: "redlock://127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003", maxTtl: "1m" },
  sqlite: { file: "locks.db" },
  zookeeper: { url: "zookeeper://127.0.0.1", acl: "open" },
};

/** As read from a configuration, which need not say anything. */
interface Config {
  readonly wait: "5s" | undefined;
  readonly signal: AbortSignal | undefined;
  readonly ttl: number | undefined;
  readonly note: string | undefined;
  readonly maxWaiters: number | undefined;
}

const config: Config = {
  wait: undefined,
  signal: undefined,
  ttl: undefined,
  note: undefined,
  maxWaiters: undefined,
};

/** With `exactOptionalPropertyTypes`, an option may be passed on that was not given. */
async function passesOn({ wait, signal, ttl, note, maxWaiters }: Config): Promise<boolean> {
  const locks = await connect("memory:", { ttl, note, closeOnSignals: undefined, onEvent: undefined });
  const lease = await locks.mutex("passed-on").acquire({ wait, signal, ttl, note, maxWaiters });
  const wasHeld = await lease.release();
  await locks.close({ drain: undefined, abort: undefined });
  return wasHeld;
}

async function main(): Promise<void> {
  const locks: Locks = await connect("memory:", { ttl: "15s" });
  const mutex = locks.mutex(["orders", "42"]);
  const token: bigint = await mutex.run({ wait: "5s" }, async (lease: Lease) => lease.token);
  const refused: unknown = await mutex
    // @ts-expect-error A duration has a unit that exists.
    .run({ wait: "5 moons" }, () => undefined)
    .catch((error: unknown) => error);
  await locks.close();

  const own: Locks = createLocks(memory());
  await using lease: Lease = await own.mutex("orders").acquire();
  const late = await own
    .mutex("orders")
    .acquire({ wait: 0, within: null })
    .catch((error: unknown) => error);
  const executor: Executor = { dialect: "postgres", query: async () => [{ token: lease.token.toString() }] };
  await fence(executor, lease);

  const engines = [
    etcd(options.etcd),
    mysql(options.mysql),
    postgres(options.postgres),
    redis(options.redis),
    redlock(options.redlock),
    sqlite(options.sqlite),
    zookeeper(options.zookeeper),
  ];
  const names = engines.map(({ traits }) => traits.engine);
  const isRight =
    token > 0n &&
    lease.held &&
    isLockError(refused, "invalid-option") &&
    late instanceof LockTimeoutError &&
    (await passesOn(config));
  console.log(isRight, fenceTable("mysql").length > 0, typeof startFaultProxy, names.join(" "));
}

void main();
