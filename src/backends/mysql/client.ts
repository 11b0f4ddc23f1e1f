import { invalidOption } from "../../core/errors.js";
import { RequestTimeout } from "../../engine-kit/request-timeout.js";
import type { TlsSettings } from "../../engine-kit/tls.js";
import { describeHosts, type Host } from "../../engine-kit/url.js";
import { type DatabaseAddress, Hosts } from "../sql/address.js";
import { closedError, lateError, ReadOnlyServerError } from "../sql/errors.js";
import { borrowedPool, type Pool, stopTimeout } from "../sql/pool.js";
import { type OwnConnection, SmallPool } from "../sql/small-pool.js";
import { ENGINE } from "./errors.js";
import {
  closed,
  connected,
  isConnection,
  library,
  type MysqlConnectionLike,
  type MysqlPoolLike,
  type MysqlPromisePool,
  type MysqlSession,
  type OwnClient,
} from "./library.js";
import type { MysqlSettings } from "./options.js";
import { identityOf, RequestStopper, type ServerIdentity, stopBorrowed } from "./stop-request.js";

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

export async function openPool(settings: MysqlSettings): Promise<Pool<MysqlSession>> {
  const { target, connections, timeoutMs, connectMs } = settings;
  if (target.address === undefined) return poolOf(target.pool, timeoutMs);
  const { address } = target;
  const { createConnection } = await library();
  const hosts = new Hosts(address.hosts);
  const shareMs = hosts.shareOf(connectMs);
  const share = new RequestTimeout(shareMs);
  const stoppers = new Map<string, RequestStopper>();
  const open = (lost: () => void) =>
    hosts.open(lost, (host, onLost) => {
      const make = () => createConnection(configOf(address, host, shareMs));
      const where = describeHosts({ hosts: [host] });
      const stopper = stoppers.get(where) ?? new RequestStopper();
      stoppers.set(where, stopper);
      return openOwn(make, where, { share, timeoutMs }, stopper, onLost);
    });
  // One of them is left for the connection that stops requests which hang, so that there are never more in all.
  const most = Math.max(1, connections - 1);
  return new SmallPool({ most, timeoutMs }, open, () => closedError(ENGINE));
}

async function openOwn(
  make: () => OwnClient,
  where: string,
  { share, timeoutMs }: { readonly share: RequestTimeout; readonly timeoutMs: number },
  stopper: RequestStopper,
  lost: () => void,
): Promise<OwnConnection<MysqlSession>> {
  // The server does not notice that we have given up and left. It should not try for much longer than we wait.
  const longestS = Math.ceil(timeoutMs / 1000) + 1;
  const limits = `SET SESSION innodb_lock_wait_timeout = ${longestS}, SESSION lock_wait_timeout = ${longestS}`;
  const client = make();
  client.on("error", lost);
  client.on("end", lost);
  const stopping = stopTimeout(timeoutMs);
  const opened = async () => {
    await connected(client);
    client.query(limits, () => {});
    return identityOf(client.promise());
  };
  try {
    // All of it within the share of this host: the next one may be the primary.
    const identity = await share.bound(
      opened(),
      (error) => error as Error,
      () => lateError(ENGINE, where, share.timeoutMs),
    );
    if (!identity.isPrimary) throw new ReadOnlyServerError(ENGINE, where);
    return {
      connection: client.promise(),
      close: (broken) => closed(client, broken),
      stop: () => stopper.stop(make, { identity, threadId: client.threadId }, stopping),
      ref: () => client.stream.ref(),
      unref: () => client.stream.unref(),
    };
  } catch (error) {
    client.stream.destroy();
    throw error;
  }
}

function poolOf(pool: MysqlPoolLike, timeoutMs: number): Pool<MysqlConnectionLike> {
  const own = "promise" in pool && typeof pool.promise === "function" ? pool.promise() : pool;
  const promised = own as MysqlPromisePool;
  const stopping = stopTimeout(timeoutMs);
  // Asked once per connection of the pool, which is in what it hands out.
  const identities = new WeakMap<object, ServerIdentity>();
  const keyOf = (connection: MysqlConnectionLike) => connection.connection ?? connection;
  return borrowedPool({
    connect: async () => {
      const connection: unknown = await promised.getConnection();
      if (!isConnection(connection)) {
        throw invalidOption("pool: what its getConnection() gives is no connection of mysql2.");
      }
      return connection;
    },
    prepare: (connection) => {
      if (identities.has(keyOf(connection))) return undefined;
      return identityOf(connection).then((identity) => void identities.set(keyOf(connection), identity));
    },
    giveBack: (connection, broken) => (broken ? connection.destroy() : connection.release()),
    stop: async (connection, attempt) => {
      const identity = identities.get(keyOf(connection));
      const { threadId } = connection;
      return identity === undefined
        ? "absent"
        : stopBorrowed(promised, { identity, threadId }, attempt, stopping);
    },
    // One is left for stopping requests which hang, if there is more than one.
    most: Math.max(1, limitOf(pool) - 1),
    size: limitOf(pool),
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
