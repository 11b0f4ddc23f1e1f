import { LockError } from "../../core/errors.js";
import type { DatabaseAddress } from "../sql/address.js";
import { closedError } from "../sql/errors.js";
import { borrowedPool, type Pool } from "../sql/pool.js";
import { type OwnConnection, SmallPool } from "../sql/small-pool.js";
import type { MysqlSettings } from "./options.js";

export const ENGINE = "MySQL";

export interface MysqlQuery {
  readonly sql: string;
  readonly values?: unknown[];
  readonly rowsAsArray?: boolean;
  readonly typeCast?: boolean;
}

/** What a pool of the caller's may have set otherwise. */
export const AS_USUAL = { rowsAsArray: false, typeCast: true };

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

/** A connection, whoever keeps it. */
export type MysqlSession = Pick<MysqlConnectionLike, "execute" | "query">;

/** A connection of `mysql2`, as it is made, with what it takes to keep it. */
interface OwnClient {
  promise(): MysqlSession;
  connect(done: (error: unknown) => void): void;
  query(sql: string, done: () => void): void;
  end(done: () => void): void;
  on(event: "error" | "end", listener: () => void): void;
  /** Another one as soon as TLS has begun. */
  readonly stream: { destroy(): void; ref(): void; unref(): void };
}

interface MysqlLibrary {
  createConnection(config: object): OwnClient;
}

/** The library is only needed by those who use this engine by URL. */
async function library(): Promise<MysqlLibrary> {
  try {
    const module: unknown = await import("mysql2");
    return (module as { default: MysqlLibrary }).default;
  } catch (cause) {
    throw new LockError("unsupported", 'a mysql:// URL needs the package "mysql2": npm install mysql2.', {
      cause,
    });
  }
}

function configOf({ host, port, username, password, database, tls }: DatabaseAddress, timeoutMs: number) {
  return {
    host,
    port,
    user: username ?? "root",
    password,
    database,
    ...(tls === undefined ? undefined : { ssl: { ...tls, rejectUnauthorized: true, verifyIdentity: true } }),
    charset: "utf8mb4",
    connectTimeout: timeoutMs,
    enableKeepAlive: true,
  };
}

export async function openPool(settings: MysqlSettings): Promise<Pool<MysqlSession>> {
  const { target, connections, timeoutMs } = settings;
  if (target.address === undefined) return poolOf(target.pool);
  const { createConnection } = await library();
  const config = configOf(target.address, timeoutMs);
  return new SmallPool(
    connections,
    () => own(createConnection(config), timeoutMs),
    () => closedError(ENGINE),
  );
}

function own(client: OwnClient, timeoutMs: number): OwnConnection<MysqlSession> {
  // The server does not notice that we have given up and left: without this, each retry at a row that is locked
  // for long would leave one more of its threads waiting there, until no connection is left for anybody.
  const longestS = Math.ceil(timeoutMs / 1000) + 1;
  const limits = `SET SESSION innodb_lock_wait_timeout = ${longestS}, SESSION lock_wait_timeout = ${longestS}`;
  return {
    connection: client.promise(),
    open: async (lost) => {
      client.on("error", lost);
      client.on("end", lost);
      await new Promise<void>((resolve, reject) => {
        client.connect((error) => (error ? reject(error) : resolve()));
      });
      client.query(limits, () => {});
    },
    close: async (broken) => {
      // The library's own way would wait for the server to leave first.
      if (broken) client.stream.destroy();
      else await new Promise<void>((resolve) => client.end(resolve));
    },
    ref: () => client.stream.ref(),
    unref: () => client.stream.unref(),
  };
}

function poolOf(pool: MysqlPoolLike): Pool<MysqlConnectionLike> {
  const promised = "promise" in pool && typeof pool.promise === "function" ? pool.promise() : pool;
  return borrowedPool(
    () => (promised as MysqlPromisePool).getConnection(),
    (connection, broken) => (broken ? connection.destroy() : connection.release()),
  );
}
