import { invalidOption, LockError } from "../../core/errors.js";
import { refuseOlder } from "../../engine-kit/client-library.js";
import { RequestTimeout } from "../../engine-kit/request-timeout.js";
import { socketTls } from "../../engine-kit/tls.js";
import { describeHosts, type Host } from "../../engine-kit/url.js";
import { type DatabaseAddress, Hosts } from "../sql/address.js";
import { closedError, lateError, ReadOnlyServerError } from "../sql/errors.js";
import { borrowedPool, type Lent, ordered, type Pool, stopTimeout } from "../sql/pool.js";
import { type OwnConnection, SmallPool } from "../sql/small-pool.js";
import { ENGINE, SILENT } from "./errors.js";
import { guarded, NEEDS_PG, requireChannelBinding } from "./guarded.js";
import {
  type Connector,
  isPooledClient,
  LOWEST_VERSIONS,
  type OwnClient,
  type PgClient,
  type PgClientLike,
  type PgPooledClient,
  type PgPoolLike,
  type PgSession,
  pgLibrary,
} from "./library.js";
import type { PostgresSettings } from "./options.js";
import type { PostgresParameters } from "./parameters.js";
import { connectorBySql, postgresJsConnector } from "./postgres-js.js";
import {
  type ServerSession,
  SessionEnder,
  type Stopping,
  sendCancel,
  sessionOf,
  stopBorrowed,
  stopRequest,
} from "./stop-request.js";

/** Where the connection that listens comes from. */
export interface ListenerPool {
  lend(): Promise<Lent<PgClientLike>>;
  end(): Promise<void>;
}

const ignore = () => {};

/** The user that a URL names, and the database. */
function loginOf({ username, password, database }: DatabaseAddress) {
  return {
    user: username ?? "postgres",
    password,
    database: database ?? username ?? "postgres",
  };
}

/** What each connection tells the server about itself. */
function startupOf({ parameters }: DatabaseAddress) {
  const { applicationName = "locktender", options } = parameters as PostgresParameters;
  return { application_name: applicationName, ...(options === undefined ? undefined : { options }) };
}

function configOf(address: DatabaseAddress, { host, port }: Host, timeoutMs: number) {
  return {
    ...loginOf(address),
    ...startupOf(address),
    host,
    port,
    ssl: address.tls === undefined ? false : socketTls(address.tls, host),
    connectionTimeoutMillis: timeoutMs,
    keepAlive: true,
  };
}

async function pgConnector(address: DatabaseAddress): Promise<Connector | undefined> {
  const library = await pgLibrary();
  if (library === undefined) return undefined;
  await refuseOlder("pg", LOWEST_VERSIONS);
  const { channelBinding } = address.parameters as PostgresParameters;
  const make = (host: Host, timeoutMs: number) => {
    const config = configOf(address, host, timeoutMs);
    if (channelBinding === undefined) return guarded(new library.Client(config));
    const client = guarded(new library.Client({ ...config, enableChannelBinding: true }));
    if (channelBinding === "require") requireChannelBinding(client);
    return client;
  };
  return {
    library: "pg",
    make,
    cancel: (client, host, requestTimeout) =>
      sendCancel(make(host, requestTimeout.timeoutMs), client as PgClient, requestTimeout),
    // In the middle of a question the library does not tell the server that it leaves.
    destroy: (client) => (client as PgClient).connection?.stream.destroy(),
  };
}

/** By the settings that the caller has given, or by the first library that is installed. */
async function connectorOf({ sql }: PostgresSettings, address: DatabaseAddress): Promise<Connector> {
  if (sql !== undefined) return connectorBySql(sql);
  const connector = (await pgConnector(address)) ?? (await otherConnector(address));
  if (connector !== undefined) return connector;
  throw new LockError(
    "unsupported",
    "a postgres:// URL needs a client library. Install one: npm install pg, or npm install postgres.",
  );
}

async function otherConnector(address: DatabaseAddress): Promise<Connector | undefined> {
  const { password, ...login } = loginOf(address);
  const { hosts, tls, parameters } = address;
  const ssl = tls === undefined ? undefined : ({ host }: Host) => socketTls(tls, host);
  const connection = startupOf(address);
  const connector = await postgresJsConnector({ ...login, hosts, pass: password, ssl, connection });
  if (connector !== undefined && (parameters as PostgresParameters).channelBinding === "require") {
    throw new LockError("unsupported", NEEDS_PG);
  }
  return connector;
}

/** Connections of ours, or of the caller's pool. */
export async function openPool(
  settings: PostgresSettings,
  onLibrary: (name: string) => void,
): Promise<Pool<PgSession>> {
  const { target, connections, timeoutMs } = settings;
  if (target.address === undefined) return poolOf(target.pool, timeoutMs);
  return ownPool(settings, target.address, connections, onLibrary);
}

/** At most so many connections of ours. */
async function ownPool(
  settings: PostgresSettings,
  address: DatabaseAddress,
  most: number,
  onLibrary: (name: string) => void = ignore,
): Promise<Pool<PgClientLike>> {
  const { timeoutMs, connectMs } = settings;
  const connector = await connectorOf(settings, address);
  onLibrary(connector.library);
  const hosts = new Hosts(address.hosts);
  const share = new RequestTimeout(hosts.shareOf(connectMs));
  const stopping = { ender: new SessionEnder(), requestTimeout: stopTimeout(timeoutMs) };
  const open = (lost: () => void) =>
    hosts.open(lost, (host, onLost) => openOwn(connector, host, share, stopping, onLost));
  return new SmallPool({ most, timeoutMs }, open, () => closedError(ENGINE));
}

/** The one that listens, apart from the others: it is in use all the time, and keeps no program from ending. */
export function listenerPool(settings: PostgresSettings, address: DatabaseAddress): ListenerPool {
  const { timeoutMs, where } = settings;
  const requestTimeout = new RequestTimeout(timeoutMs);
  let opening: Promise<Pool<PgClientLike>> | undefined;
  return {
    lend: async () => {
      opening ??= ownPool(settings, address, 1);
      const pool = await opening;
      const lent = await ordered(pool, requestTimeout, () => lateError(ENGINE, where, timeoutMs));
      (lent.connection as OwnClient).unref();
      return {
        ...lent,
        giveBack: (broken) => {
          lent.giveBack(broken);
          // None is kept that does not listen.
          pool.replace();
        },
      };
    },
    end: async () => (await opening)?.end(),
  };
}

async function openOwn(
  connector: Connector,
  host: Host,
  share: RequestTimeout,
  stopping: Stopping,
  lost: () => void,
): Promise<OwnConnection<PgClientLike>> {
  const make = () => connector.make(host, share.timeoutMs);
  const client = make();
  client.on("error", lost);
  client.on("end", lost);
  const close = async (broken: boolean) => {
    if (broken) connector.destroy(client);
    await client.end();
  };
  const where = describeHosts({ hosts: [host] });
  const opened = async () => {
    await client.connect();
    return sessionOf(client);
  };
  const cancel = () => connector.cancel(client, host, stopping.requestTimeout);
  try {
    // All of it within the share of this host: the next one may be the primary.
    const { session, isReadOnly } = await share.bound(
      opened(),
      (error) => error as Error,
      () => lateError(ENGINE, where, share.timeoutMs, SILENT),
    );
    if (isReadOnly) throw new ReadOnlyServerError(ENGINE, where);
    return {
      connection: client,
      close,
      stop: (attempt) => stopRequest({ cancel, make }, session, attempt, stopping),
      ref: () => client.ref(),
      unref: () => client.unref(),
    };
  } catch (error) {
    close(true).catch(ignore);
    throw error;
  }
}

function poolOf(pool: PgPoolLike, timeoutMs: number): Pool<PgPooledClient> {
  const stopping = { ender: new SessionEnder(), requestTimeout: stopTimeout(timeoutMs) };
  // Asked once per connection of the pool.
  const sessions = new WeakMap<PgPooledClient, ServerSession | undefined>();
  return borrowedPool({
    connect: async () => {
      const client: unknown = await pool.connect();
      if (!isPooledClient(client)) {
        throw invalidOption("pool: what its connect() gives is no client of a Pool of pg.");
      }
      // Without it a connection that breaks between two requests would end the process.
      client.on("error", ignore);
      return client;
    },
    prepare: (client) => {
      if (sessions.has(client)) return undefined;
      return sessionOf(client).then(({ session }) => void sessions.set(client, session));
    },
    giveBack: (client, broken) => {
      if (!broken) client.removeListener("error", ignore);
      return client.release(broken);
    },
    stop: (client, attempt) => stopBorrowed(pool, client, sessions.get(client), attempt, stopping),
    most: Infinity,
    size: sizeOf(pool),
    timeoutMs,
  });
}

/** How many clients a pool of the library makes at most. */
function sizeOf({ options }: PgPoolLike): number {
  const max = options?.max;
  return typeof max === "number" ? max : Infinity;
}
