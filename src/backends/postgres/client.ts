import { isIP } from "node:net";
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import { LockError } from "../../core/errors.js";
import type { TlsTexts } from "../../core/tls.js";
import type { DatabaseAddress } from "../sql/address.js";
import { closedError } from "../sql/errors.js";
import { borrowedPool, type Lent, type Pool } from "../sql/pool.js";
import { type OwnConnection, SmallPool } from "../sql/small-pool.js";
import type { PostgresSettings } from "./options.js";

export const ENGINE = "PostgreSQL";

export interface PgQuery {
  readonly text: string;
  readonly values?: readonly unknown[];
  /** Prepared once per connection under this name. */
  readonly name?: string;
  /** How values of each type are read. */
  readonly types?: { getTypeParser(): (value: string) => unknown };
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

/** A client of the library, with what it takes to keep it. */
interface OwnClient extends PgClientLike {
  connect(): Promise<void>;
  end(): Promise<void>;
  ref(): void;
  unref(): void;
}

interface PgLibrary {
  readonly Client: new (config: object) => OwnClient;
}

const ignore = () => {};

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
    ssl: tls === undefined ? false : secured(tls, host),
    connectionTimeoutMillis: timeoutMs,
    keepAlive: true,
    application_name: "locktender",
  };
}

/** The library would hold a certificate against "localhost" where the host is an address. */
function secured(tls: TlsTexts, host: string) {
  const check = (_: string, certificate: PeerCertificate) => checkServerIdentity(host, certificate);
  const servername = isIP(host) === 0 ? { servername: host } : undefined;
  return { ...tls, ...servername, rejectUnauthorized: true, checkServerIdentity: check };
}

export async function openPool(settings: PostgresSettings): Promise<Pool<PgClientLike>> {
  const { target, connections, timeoutMs } = settings;
  if (target.address === undefined) return poolOf(target.pool);
  const { Client } = await library();
  const config = configOf(target.address, timeoutMs);
  return new SmallPool(
    connections,
    () => own(new Client(config)),
    () => closedError(ENGINE),
  );
}

function own(client: OwnClient): OwnConnection<PgClientLike> {
  return {
    connection: client,
    open: (lost) => {
      client.on("error", lost);
      client.on("end", lost);
      return client.connect();
    },
    // In the middle of a question the library does not say goodbye.
    close: () => client.end(),
    ref: () => client.ref(),
    unref: () => client.unref(),
  };
}

function poolOf(pool: PgPoolLike): Pool<PgPooledClient> {
  const connect = async () => {
    const client = await pool.connect();
    // Without it a connection that breaks between two requests would end the process.
    client.on("error", ignore);
    return client;
  };
  return borrowedPool(connect, (client, broken) => {
    if (!broken) client.removeListener("error", ignore);
    client.release(broken);
  });
}

/** A connection beside the pool. */
export async function openClient(address: DatabaseAddress, timeoutMs: number): Promise<Lent<PgClientLike>> {
  const { Client } = await library();
  const client = new Client(configOf(address, timeoutMs));
  client.on("error", ignore);
  await client.connect();
  // A program that has finished must be able to exit.
  client.unref();
  return { connection: client, giveBack: () => void client.end().catch(ignore) };
}
