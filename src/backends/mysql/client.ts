import { LockError } from "../../core/errors.js";
import type { DatabaseAddress } from "../sql/address.js";

export interface MysqlQuery {
  readonly sql: string;
  readonly values?: unknown[];
  readonly rowsAsArray?: boolean;
}

/** What we use of a connection of `mysql2/promise`. */
export interface MysqlConnectionLike {
  execute(query: MysqlQuery): Promise<[unknown, unknown]>;
  query(query: MysqlQuery): Promise<[unknown, unknown]>;
  release(): void;
  destroy(): void;
}

/** What we use of a pool of `mysql2/promise`. */
export interface MysqlPromisePool {
  getConnection(): Promise<MysqlConnectionLike>;
}

/** A pool of `mysql2/promise`, or one of `mysql2`, which has the other in it. */
export type MysqlPoolLike = MysqlPromisePool | { promise(): MysqlPromisePool };

export interface OwnPool extends MysqlPromisePool {
  end(): Promise<void>;
}

/** A pool of `mysql2`, as it is made. */
interface RawPool {
  promise(): OwnPool;
  on(
    event: "connection",
    listener: (connection: { query(sql: string, done: () => void): void }) => void,
  ): void;
}

export function promisePool(pool: MysqlPoolLike): MysqlPromisePool {
  return "promise" in pool && typeof pool.promise === "function"
    ? pool.promise()
    : (pool as MysqlPromisePool);
}

/** The library is only needed by those who use this engine by URL. */
export async function openPool(
  { host, port, username, password, database, tls }: DatabaseAddress,
  connections: number,
  timeoutMs: number,
): Promise<OwnPool> {
  let createPool: (config: object) => RawPool;
  try {
    const module: unknown = await import("mysql2");
    ({ createPool } = (module as { default: { createPool: typeof createPool } }).default);
  } catch (cause) {
    throw new LockError("unsupported", 'a mysql:// URL needs the package "mysql2": npm install mysql2.', {
      cause,
    });
  }
  const pool = createPool({
    host,
    port,
    user: username ?? "root",
    password,
    database,
    ...(tls === undefined ? undefined : { ssl: { ...tls, rejectUnauthorized: true, verifyIdentity: true } }),
    charset: "utf8mb4",
    connectionLimit: connections,
    // A connection that nobody uses is given back, and does not keep the program from ending.
    maxIdle: connections,
    idleTimeout: 60_000,
    connectTimeout: timeoutMs,
    enableKeepAlive: true,
  });
  // The server does not notice that we have given up and left: without this, each retry at a row that is locked
  // for long would leave one more of its threads waiting there, until no connection is left for anybody.
  const longestS = Math.ceil(timeoutMs / 1000) + 1;
  const limits = `SET SESSION innodb_lock_wait_timeout = ${longestS}, SESSION lock_wait_timeout = ${longestS}`;
  pool.on("connection", (connection) => connection.query(limits, () => {}));
  return pool.promise();
}
