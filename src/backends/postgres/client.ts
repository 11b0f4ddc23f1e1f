import { isIP } from "node:net";
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import { LockError } from "../../core/errors.js";
import type { TlsTexts } from "../../core/tls.js";
import type { DatabaseAddress } from "../sql/address.js";
import { type OwnClient, SmallPool } from "./small-pool.js";

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

interface PgLibrary {
  readonly Client: new (config: object) => OwnClient;
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

export async function openPool(
  address: DatabaseAddress,
  connections: number,
  timeoutMs: number,
): Promise<SmallPool> {
  const { Client } = await library();
  return new SmallPool(connections, () => new Client(configOf(address, timeoutMs)));
}

/** A connection outside the pool. */
export async function openClient(address: DatabaseAddress, timeoutMs: number): Promise<PgPooledClient> {
  const { Client } = await library();
  const client = new Client(configOf(address, timeoutMs));
  client.on("error", () => {});
  await client.connect();
  // A program that has finished must be able to exit.
  client.unref();
  const release = () => void client.end().catch(() => undefined);
  return Object.assign(client, { release });
}
