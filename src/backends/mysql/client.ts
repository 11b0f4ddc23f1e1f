import { invalidOption } from "../../core/errors.js";
import type { RequestTimeout } from "../../engine-kit/request-timeout.js";
import type { TlsSettings } from "../../engine-kit/tls.js";
import type { Host } from "../../engine-kit/url.js";
import { borrowedPool, inTime, type OpeningConnection, ownPool, stopTimeout } from "../sql/open-pool.js";
import type { DatabaseAddress } from "../sql/options.js";
import type { Pool, StopResult } from "../sql/pool.js";
import { ENGINE, isFromServer, isWritable } from "./errors.js";
import {
  closed,
  connected,
  firstRow,
  isConnection,
  library,
  type MysqlConnectionLike,
  type MysqlPoolLike,
  type MysqlPromisePool,
  type MysqlSession,
  type OwnClient,
} from "./library.js";
import type { MysqlSettings } from "./options.js";

const ignore = () => {};

function configOf(address: DatabaseAddress, { host, port }: Host, timeoutMs: number) {
  const { username, password, database, tls } = address;
  return {
    ...(host.startsWith("/") ? { socketPath: host } : { host, port }),
    user: username ?? "root",
    password,
    database,
    ...(tls === undefined ? undefined : { ssl: secured(tls) }),
    charset: "utf8mb4",
    connectTimeout: timeoutMs,
    enableKeepAlive: true,
  };
}

/** As the library takes it, which checks by itself which host a certificate names. */
function secured({ verify, ...texts }: TlsSettings) {
  return { ...texts, rejectUnauthorized: verify !== "nothing", verifyIdentity: verify === "full" };
}

/** Connections of ours, or of the caller's pool. */
export async function openPool(settings: MysqlSettings): Promise<Pool<MysqlSession>> {
  const { target, connections, timeoutMs, connectMs } = settings;
  if (target.address === undefined) return poolOf(target.pool, timeoutMs);
  const { address } = target;
  const { hosts } = address;
  const { createConnection } = await library();
  const stoppers = new Map(hosts.map((host) => [host, new RequestStopper()]));
  // One of them is left for the connection that stops requests which hang, so that there are never more in all.
  const most = Math.max(1, connections - 1);
  return ownPool({ engine: ENGINE, hosts, most, timeoutMs, connectMs }, (host, shareMs, lost) => {
    const make = () => createConnection(configOf(address, host, shareMs));
    return open(make, timeoutMs, stoppers.get(host) as RequestStopper, lost);
  });
}

function open(
  make: () => OwnClient,
  timeoutMs: number,
  stopper: RequestStopper,
  lost: () => void,
): OpeningConnection<MysqlSession> {
  // The server does not notice that we have given up and left. It should not try for much longer than we wait.
  const longestS = Math.ceil(timeoutMs / 1000) + 1;
  const limits = `SET SESSION innodb_lock_wait_timeout = ${longestS}, SESSION lock_wait_timeout = ${longestS}`;
  const client = make();
  client.on("error", lost);
  client.on("end", lost);
  const stopping = stopTimeout(timeoutMs);
  const opened = connected(client).then(() => {
    client.query(limits, ignore);
    return identityOf(client.promise());
  });
  return {
    connection: client.promise(),
    isReadOnly: opened.then(({ isPrimary }) => !isPrimary),
    close: (broken) => closed(client, broken),
    stop: async () => {
      const identity = await opened;
      return stopper.stop(make, { identity, threadId: client.threadId }, stopping);
    },
    ref: () => client.stream.ref(),
    unref: () => client.stream.unref(),
  };
}

function poolOf(pool: MysqlPoolLike, timeoutMs: number): Pool<MysqlConnectionLike> {
  const own = "promise" in pool && typeof pool.promise === "function" ? pool.promise() : pool;
  const promised = own as MysqlPromisePool;
  const stopping = stopTimeout(timeoutMs);
  const limit = limitOf(pool);
  return borrowedPool({
    engine: ENGINE,
    connect: async () => {
      const connection: unknown = await promised.getConnection();
      if (!isConnection(connection)) {
        throw invalidOption("pool: what its getConnection() gives is no connection of mysql2.");
      }
      return connection;
    },
    innerOf: (connection) => connection.connection ?? connection,
    identify: (connection) => identityOf(connection),
    giveBack: (connection, broken) => (broken ? connection.destroy() : connection.release()),
    stop: ({ threadId }, identity, attempt) =>
      stopBorrowed(promised, { identity, threadId }, attempt, stopping),
    // One is left for stopping requests which hang, if there is more than one.
    most: Math.max(1, limit - 1),
    callersPoolSize: limit,
    timeoutMs,
  });
}

/** How many connections a pool of the library makes at most. */
function limitOf(pool: object): number {
  const { pool: inner = pool } = pool as { readonly pool?: object };
  const { connectionLimit } =
    (inner as { readonly config?: { readonly connectionLimit?: unknown } }).config ?? {};
  return typeof connectionLimit === "number" && connectionLimit > 0 ? connectionLimit : Infinity;
}

/**
 * A connection as its server knows it: the server, and the client's address and port. The number of a connection
 * alone means another one on another server, or after a restart.
 */
interface ServerIdentity {
  readonly server: string;
  readonly client: string;
}

interface ServerThread {
  readonly identity: ServerIdentity;
  readonly threadId: number | null | undefined;
}

/** As often as a pool of the caller's is asked for a connection in vain; then the one that hangs is given up. */
const BORROWED_TRIES = 6;
/** Every user sees its own connections in the list. */
const identityQuery = (threadId: string) =>
  `SELECT CONCAT_WS(' ', @@hostname, @@port, @@server_id, @@datadir) AS server, @@global.read_only AS read_only,
  (SELECT host FROM information_schema.processlist WHERE id = ${threadId}) AS client,
  (SELECT command FROM information_schema.processlist WHERE id = ${threadId}) AS command`;

/** What the library says of a pool that lets no request wait, or no more of them. */
const NO_CONNECTION_LEFT = /No connections available|Queue limit reached/;

/** Asked of each new connection: of itself, or of another one of the same server. */
async function identityOf(
  session: MysqlSession,
  threadId = "CONNECTION_ID()",
): Promise<ServerIdentity & { readonly isPrimary: boolean; readonly isIdle: boolean }> {
  const row = await firstRow(session, identityQuery(threadId));
  return {
    server: String(row?.server),
    client: String(row?.client),
    isPrimary: isWritable(row?.read_only),
    isIdle: row?.command === "Sleep",
  };
}

/**
 * Stops what runs on connections of ours. The server has to be told by another connection: there is one for all
 * that have to be stopped at a time, and it is closed as soon as it is not needed.
 */
class RequestStopper {
  #open: Promise<OwnClient> | undefined;
  #users = 0;

  async stop(
    make: () => OwnClient,
    thread: ServerThread,
    requestTimeout: RequestTimeout,
  ): Promise<StopResult> {
    this.#users++;
    let client: OwnClient | undefined;
    try {
      this.#open ??= openWithin(make, requestTimeout);
      client = await this.#open;
      return await inTime(killOn(client.promise(), thread), requestTimeout);
    } catch (error) {
      // A server that has no connection left is reachable.
      return isFromServer(error) ? "repeat" : "unreachable";
    } finally {
      if (--this.#users === 0) {
        this.#open = undefined;
        const cutOff = () => client?.stream.destroy();
        if (client !== undefined) await inTime(closed(client, false), requestTimeout).catch(cutOff);
      }
    }
  }
}

async function openWithin(make: () => OwnClient, requestTimeout: RequestTimeout): Promise<OwnClient> {
  const client = make();
  client.on("error", ignore);
  try {
    await inTime(connected(client), requestTimeout);
    return client;
  } catch (error) {
    client.stream.destroy();
    throw error;
  }
}

async function killOn(session: MysqlSession, { identity, threadId }: ServerThread): Promise<StopResult> {
  if (typeof threadId !== "number") return "absent";
  const { server, client, isIdle } = await identityOf(session, String(threadId));
  if (server !== identity.server || client !== identity.client) return "absent";
  // Ended only if nothing runs on it, because a request or an answer was lost on the way: a commit that waits for a
  // replica goes on after its connection has been ended, and would count no more.
  const what = isIdle ? "CONNECTION" : "QUERY";
  try {
    await firstRow(session, `KILL ${what} ${threadId}`);
    return "repeat";
  } catch (error) {
    // 1094: there is no such connection; 1095: it is of another user.
    if (isFromServer(error) && /^109[45]$/.test(String((error as { errno?: unknown }).errno)))
      return "absent";
    throw error;
  }
}

/** The same for a connection of the caller's pool, by another one of them. */
async function stopBorrowed(
  pool: MysqlPromisePool,
  thread: ServerThread,
  attempt: number,
  requestTimeout: RequestTimeout,
): Promise<StopResult> {
  const coming = pool.getConnection();
  let other: MysqlConnectionLike;
  try {
    other = await inTime(coming, requestTimeout);
  } catch (error) {
    coming.then((late) => late.release(), ignore);
    const { code, message } = error as { code?: unknown; message?: unknown };
    // The pool has none to spare, now or within that time: the server may well be there.
    const isBusy = code === undefined || NO_CONNECTION_LEFT.test(String(message));
    return isBusy && attempt < BORROWED_TRIES ? "repeat" : "unreachable";
  }
  try {
    const stop = await inTime(killOn(other, thread), requestTimeout);
    other.release();
    return stop;
  } catch {
    other.destroy();
    return "unreachable";
  }
}
