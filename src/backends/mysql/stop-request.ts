import type { RequestTimeout } from "../../engine-kit/request-timeout.js";
import type { Stop } from "../sql/pool.js";
import { rowsOf } from "./dialect.js";
import { isServers, isWritable } from "./errors.js";
import {
  AS_USUAL,
  closed,
  connected,
  type MysqlConnectionLike,
  type MysqlPromisePool,
  type MysqlSession,
  type OwnClient,
} from "./library.js";

/**
 * A connection as its server knows it: the server, and the client's address and port. The number of a connection
 * alone means another one on another server, or after a restart.
 */
export interface ServerIdentity {
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

const asIs = (error: unknown) => error as Error;
const noAnswer = () => new Error("no answer");

/** Asked of each new connection: of itself, or of another one of the same server. */
export async function identityOf(
  session: MysqlSession,
  threadId = "CONNECTION_ID()",
): Promise<ServerIdentity & { readonly isPrimary: boolean; readonly isIdle: boolean }> {
  const [results] = await session.query({ sql: identityQuery(threadId), ...AS_USUAL });
  const row = rowsOf(results)[0];
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
export class RequestStopper {
  #open: Promise<OwnClient> | undefined;
  #users = 0;

  async stop(make: () => OwnClient, thread: ServerThread, requestTimeout: RequestTimeout): Promise<Stop> {
    this.#users++;
    let client: OwnClient | undefined;
    try {
      this.#open ??= opened(make, requestTimeout);
      client = await this.#open;
      return await requestTimeout.bound(killOn(client.promise(), thread), asIs, noAnswer);
    } catch (error) {
      // A server that has no connection left is reachable.
      return isServers(error) ? "told" : "unreachable";
    } finally {
      if (--this.#users === 0) {
        this.#open = undefined;
        if (client !== undefined) await closeWithin(client, requestTimeout);
      }
    }
  }
}

async function opened(make: () => OwnClient, requestTimeout: RequestTimeout): Promise<OwnClient> {
  const client = make();
  client.on("error", () => {});
  try {
    await requestTimeout.bound(connected(client), asIs, noAnswer);
    return client;
  } catch (error) {
    client.stream.destroy();
    throw error;
  }
}

async function closeWithin(client: OwnClient, requestTimeout: RequestTimeout): Promise<void> {
  await requestTimeout.bound(closed(client, false), asIs, noAnswer).catch(() => client.stream.destroy());
}

async function killOn(session: MysqlSession, { identity, threadId }: ServerThread): Promise<Stop> {
  if (typeof threadId !== "number") return "absent";
  const { server, client, isIdle } = await identityOf(session, String(threadId));
  if (server !== identity.server || client !== identity.client) return "absent";
  // Ended only if nothing runs on it, because a request or an answer was lost on the way: a commit that waits for a
  // replica goes on after its connection has been ended, and would count no more.
  const what = isIdle ? "CONNECTION" : "QUERY";
  try {
    await session.query({ sql: `KILL ${what} ${threadId}`, ...AS_USUAL });
    return "told";
  } catch (error) {
    // 1094: there is no such connection; 1095: it is of another user.
    if (isServers(error) && /^109[45]$/.test(String((error as { errno?: unknown }).errno))) return "absent";
    throw error;
  }
}

/** The same for a connection of the caller's pool, by another one of them. */
export async function stopBorrowed(
  pool: MysqlPromisePool,
  thread: ServerThread,
  attempt: number,
  requestTimeout: RequestTimeout,
): Promise<Stop> {
  const coming = pool.getConnection();
  let other: MysqlConnectionLike;
  try {
    other = await requestTimeout.bound(coming, asIs, noAnswer);
  } catch (error) {
    const gone = (late: MysqlConnectionLike) => late.release();
    coming.then(gone, () => undefined);
    const { code, message } = error as { code?: unknown; message?: unknown };
    // The pool has none to spare, now or within that time: the server may well be there.
    const isBusy = code === undefined || NO_CONNECTION_LEFT.test(String(message));
    return isBusy && attempt < BORROWED_TRIES ? "told" : "unreachable";
  }
  try {
    const stop = await requestTimeout.bound(killOn(other, thread), asIs, noAnswer);
    other.release();
    return stop;
  } catch {
    other.destroy();
    return "unreachable";
  }
}
