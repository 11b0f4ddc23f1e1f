import { hasMethods, partOf } from "../../core/errors.js";
import type { LowestVersions } from "../../engine-kit/client-library.js";
import type { RequestTimeout } from "../../engine-kit/request-timeout.js";
import type { Host } from "../../engine-kit/url.js";
import type { DatabaseAddress } from "../sql/options.js";
import type { StopResult } from "../sql/pool.js";

/** A query as `pg` takes it. */
export interface PgQuery {
  readonly text: string;
  readonly values?: readonly unknown[];
  /** Prepared once per connection under this name. */
  readonly name?: string;
  /** How values of each type are read. */
  readonly types?: { getTypeParser(): (value: string) => unknown };
  /** What its columns are called, for libraries that may rename them. */
  readonly columns?: readonly string[];
}

/** As they come: the program may have taught the library to read numbers in its own way. */
export const AS_TEXTS = { getTypeParser: () => (value: string) => value };

/** A connection, whichever library has made it. */
export interface PgSession {
  query(query: PgQuery): Promise<{ readonly rows: readonly unknown[] }>;
}

/** The first row of an answer, by column; each value is a text, or null. */
export async function firstRow(
  session: PgSession,
  query: PgQuery & { readonly columns: readonly string[] },
): Promise<Readonly<Record<string, string | null>> | undefined> {
  const { rows } = await session.query({ ...query, types: AS_TEXTS });
  return rows[0] as Record<string, string | null> | undefined;
}

export interface PgNotification {
  readonly channel: string;
  readonly payload?: string | undefined;
}

/** What we use of a client of `pg`. */
export interface PgClientLike extends PgSession {
  on(event: "error" | "end" | "notification", listener: (message: PgNotification) => void): unknown;
  removeListener(event: string, listener: (message: PgNotification) => void): unknown;
}

/** What we use of a client from a pool of `pg`. */
export interface PgPooledClient extends PgClientLike, CancelTarget {
  release(destroy?: boolean): void;
}

export function isPooledClient(client: unknown): client is PgPooledClient {
  return hasMethods(client, ["query", "on", "removeListener", "release"]);
}

/** What we use of a pool of `pg`. */
export interface PgPoolLike {
  connect(): Promise<PgPooledClient>;
  readonly totalCount: number;
  readonly options?: { readonly max?: number };
}

/** A client has a `connect`, too, as those of other libraries have; a pool counts its clients. */
export function isPgPool(pool: unknown): pool is PgPoolLike {
  return hasMethods(pool, ["connect", "query"]) && typeof partOf(pool, "totalCount") === "number";
}

/** A client that we keep. */
export interface OwnClient extends PgClientLike {
  readonly processID?: number | null;
  connect(): Promise<void>;
  end(): Promise<void>;
  ref(): void;
  unref(): void;
}

/** How one of the libraries makes connections of ours, and ends them. */
export interface Connector {
  /** The name of its package. */
  readonly library: "pg" | "postgres";
  make(host: Host, timeoutMs: number): OwnClient;
  /** Sends a cancel request for what runs on it, which takes none of the server's connections. */
  cancel(client: OwnClient, host: Host, requestTimeout: RequestTimeout): Promise<StopResult>;
  /** Cuts the connection off, without telling the server. */
  destroy(client: OwnClient): void;
}

/** A client of `pg`, as its library makes it. */
export interface PgClient extends OwnClient, CancelTarget, CancelSender {
  /** As it was asked for; versions before 8.14 do not have it. */
  readonly enableChannelBinding?: boolean;
}

/** What the server knows a connection by: a client that has both may cancel what runs on it. */
export interface CancelTarget {
  readonly processID?: number | null;
  readonly secretKey?: number | null;
}

/** What a client of `pg` brings along to send a cancel request, before it is connected itself. */
export interface CancelSender {
  readonly connection?: PgWire;
  readonly host?: string;
  readonly port?: number;
  readonly ssl?: unknown;
}

export interface PgStream {
  emit(event: string, ...args: unknown[]): boolean;
  destroy(error?: Error): unknown;
  unref?(): void;
}

interface PgWire {
  readonly stream: PgStream;
  connect(port: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processId: number, secretKey: number): void;
  emit(event: "error", error: Error): unknown;
  on(event: WireEvent, listener: (message: { readonly mechanisms?: readonly string[] }) => void): unknown;
}

type WireEvent =
  | "connect"
  | "sslconnect"
  | "error"
  | "end"
  | "authenticationCleartextPassword"
  | "authenticationMD5Password"
  | "authenticationSASL"
  | "authenticationSASLFinal"
  | "authenticationOk";

export const LOWEST_VERSIONS: LowestVersions<Connector["library"]> = { pg: "8.11.0", postgres: "3.4.5" };

/** What the URL can set beyond the options: what a connection tells the server, and how it logs in. */
export interface PostgresParameters {
  readonly applicationName?: string;
  /** As `psql` and others hand them to the server: `-c name=value`. */
  readonly options?: string;
  readonly channelBinding?: "require" | "prefer";
}

/** The user that a URL names, and the database. */
export function loginOf({ username, password, database }: DatabaseAddress) {
  return {
    user: username ?? "postgres",
    password,
    database: database ?? username ?? "postgres",
  };
}

/** What each connection tells the server about itself. */
export function startupOf({ parameters }: DatabaseAddress) {
  const { applicationName = "locktender", options } = parameters as PostgresParameters;
  return { application_name: applicationName, ...(options === undefined ? undefined : { options }) };
}
