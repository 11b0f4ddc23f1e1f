import { LockError } from "../../core/errors.js";
import type { DatabaseAddress } from "../sql/address.js";

export interface PgQuery {
  readonly text: string;
  readonly values?: readonly unknown[];
  /** Prepared once per connection under this name. */
  readonly name?: string;
}

export interface PgNotification {
  readonly channel: string;
  readonly payload?: string | undefined;
}

/** What we use of a client of `pg`. */
export interface PgClientLike {
  query(query: PgQuery): Promise<{ readonly rows: readonly unknown[] }>;
  on(event: "error" | "end" | "notification", listener: (message: PgNotification) => void): unknown;
  removeListener(event: string, listener: (message: PgNotification) => void): unknown;
}

export interface PgPooledClient extends PgClientLike {
  release(destroy?: boolean): void;
}

/** What we use of a pool of `pg`. */
export interface PgPoolLike {
  connect(): Promise<PgPooledClient>;
  readonly options?: { readonly max?: number };
}

export interface OwnPool extends PgPoolLike {
  end(): Promise<void>;
  on(event: "error" | "connect", listener: (client: PgClientLike) => void): unknown;
}

interface PgLibrary {
  readonly Pool: new (config: object) => OwnPool;
  readonly Client: new (config: object) => PgClientLike & { connect(): Promise<void>; end(): Promise<void> };
}

/** The library is only needed by those who use this engine by URL. */
async function library(): Promise<PgLibrary> {
  try {
    const module: { readonly default: unknown } = await import("pg");
    return module.default as PgLibrary;
  } catch (cause) {
    throw new LockError("unsupported", 'a postgres:// URL needs the package "pg": npm install pg.', {
      cause,
    });
  }
}

function configOf({ host, port, username, password, database, tls }: DatabaseAddress, timeoutMs: number) {
  return {
    host,
    port,
    user: username ?? "postgres",
    password,
    database: database ?? username ?? "postgres",
    ssl: tls === undefined ? false : { ...tls, rejectUnauthorized: true, servername: host },
    connectionTimeoutMillis: timeoutMs,
    keepAlive: true,
    application_name: "locktender",
  };
}

export async function openPool(
  address: DatabaseAddress,
  connections: number,
  timeoutMs: number,
): Promise<OwnPool> {
  const { Pool } = await library();
  const pool = new Pool({ ...configOf(address, timeoutMs), max: connections, allowExitOnIdle: true });
  // An idle connection that breaks is replaced by the pool; whoever asks next need not know.
  pool.on("error", () => {});
  // The pool listens for errors of idle connections only. One that breaks in the very turn in which it was
  // opened would find nobody listening, and end the process.
  pool.on("connect", (client) => client.on("error", () => {}));
  return pool;
}

/** A connection outside the pool. */
export async function openClient(address: DatabaseAddress, timeoutMs: number): Promise<PgPooledClient> {
  const { Client } = await library();
  const client = new Client(configOf(address, timeoutMs));
  client.on("error", () => {});
  await client.connect();
  const release = () => void client.end().catch(() => undefined);
  return Object.assign(client, { release });
}
