import { invalidOption, LockError } from "../../core/errors.js";
import { RequestTimeout } from "../../engine-kit/request-timeout.js";
import type { Host } from "../../engine-kit/url.js";
import { codeOf, lateError } from "../sql/errors.js";
import { borrowedPool, inTime, type OpeningConnection, ownPool, stopTimeout } from "../sql/open-pool.js";
import type { DatabaseAddress } from "../sql/options.js";
import type { Lent, Pool, StopResult } from "../sql/pool.js";
import { ENGINE, SILENT } from "./errors.js";
import {
  type CancelSender,
  type CancelTarget,
  type Connector,
  firstRow,
  isPooledClient,
  type OwnClient,
  type PgClientLike,
  type PgPooledClient,
  type PgPoolLike,
  type PgSession,
} from "./library.js";
import type { PostgresSettings } from "./options.js";
import { pgConnector, sendCancel } from "./pg.js";
import { connectorBySql, postgresJsConnector } from "./postgres-js.js";

/** Where the connection that listens comes from. */
export interface ListenerPool {
  lend(): Promise<Lent<PgClientLike>>;
  end(): Promise<void>;
}

const ignore = () => {};

/** By the settings that the caller has given, or by the first library that is installed. */
async function connectorOf({ sql }: PostgresSettings, address: DatabaseAddress): Promise<Connector> {
  if (sql !== undefined) return connectorBySql(sql);
  const connector = (await pgConnector(address)) ?? (await postgresJsConnector(address));
  if (connector !== undefined) return connector;
  throw new LockError(
    "unsupported",
    "a postgres:// URL needs a client library. Install one: npm install pg, or npm install postgres.",
  );
}

/** Connections of ours, or of the caller's pool. */
export async function openPool(
  settings: PostgresSettings,
  onLibrary: (name: string) => void,
): Promise<Pool<PgSession>> {
  const { target, connections, timeoutMs } = settings;
  if (target.address === undefined) return poolOf(target.pool, timeoutMs);
  return openOwnPool(settings, target.address, connections, onLibrary);
}

/** At most so many connections of ours. */
async function openOwnPool(
  settings: PostgresSettings,
  address: DatabaseAddress,
  most: number,
  onLibrary: (name: string) => void = ignore,
): Promise<Pool<PgClientLike>> {
  const { timeoutMs, connectMs } = settings;
  const connector = await connectorOf(settings, address);
  onLibrary(connector.library);
  const stopper = new RequestStopper(timeoutMs);
  const { hosts } = address;
  return ownPool(
    { engine: ENGINE, hosts, most, timeoutMs, connectMs, silent: SILENT },
    (host, shareMs, lost) => open(connector, host, shareMs, stopper, lost),
  );
}

function open(
  connector: Connector,
  host: Host,
  timeoutMs: number,
  stopper: RequestStopper,
  lost: () => void,
): OpeningConnection<PgClientLike> {
  const make = () => connector.make(host, timeoutMs);
  const client = make();
  client.on("error", lost);
  client.on("end", lost);
  const opened = client.connect().then(() => sessionOf(client));
  const cancel = () => connector.cancel(client, host, stopper.requestTimeout);
  return {
    connection: client,
    isReadOnly: opened.then(({ isReadOnly }) => isReadOnly),
    close: async (broken) => {
      if (broken) connector.destroy(client);
      await client.end();
    },
    stop: async (attempt) => stopper.stop({ cancel, make }, (await opened).session, attempt),
    ref: () => client.ref(),
    unref: () => client.unref(),
  };
}

/** The one that listens, apart from the others: it is in use all the time, and keeps no program from ending. */
export function listenerPool(settings: PostgresSettings, address: DatabaseAddress): ListenerPool {
  const { timeoutMs, where } = settings;
  const requestTimeout = new RequestTimeout(timeoutMs);
  let opening: Promise<Pool<PgClientLike>> | undefined;
  return {
    lend: async () => {
      opening ??= openOwnPool(settings, address, 1);
      const pool = await opening;
      const lent = await pool.lend(requestTimeout, () => lateError(ENGINE, where, timeoutMs));
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

function poolOf(pool: PgPoolLike & { readonly Client?: unknown }, timeoutMs: number): Pool<PgPooledClient> {
  const stopper = new RequestStopper(timeoutMs);
  const max = pool.options?.max;
  return borrowedPool({
    engine: ENGINE,
    connect: async () => {
      const client: unknown = await pool.connect();
      if (!isPooledClient(client)) {
        throw invalidOption("pool: what its connect() gives is no client of a Pool of pg.");
      }
      // Without it a connection that breaks between two requests would end the process.
      client.on("error", ignore);
      return client;
    },
    identify: async (client) => (await sessionOf(client)).session,
    giveBack: (client, broken) => {
      if (!broken) client.removeListener("error", ignore);
      return client.release(broken);
    },
    // By clients that are made as the pool makes them.
    stop: async (client, session, attempt) => {
      if (typeof pool.Client !== "function") return "absent";
      const Client = pool.Client as new (options: unknown) => OwnClient & CancelSender;
      const make = () => new Client(pool.options);
      const cancel = () => sendCancel(make(), client, stopper.requestTimeout);
      return stopper.stop({ cancel, make }, session, attempt);
    },
    most: Infinity,
    callersPoolSize: typeof max === "number" ? max : Infinity,
    timeoutMs,
  });
}

/** The server process behind a connection. Its start tells it from one with the same id on another server. */
interface ServerSession {
  readonly pid: number;
  readonly started: string;
}

const SESSION = `SELECT current_setting('transaction_read_only') AS read_only, pg_backend_pid() AS pid,
  (SELECT backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS started`;

/** Asked of each new connection. Behind a pooler there is no session: what it says is of no use later. */
async function sessionOf(
  client: PgSession & Pick<CancelTarget, "processID">,
): Promise<{ readonly isReadOnly: boolean; readonly session: ServerSession | undefined }> {
  const row = await firstRow(client, { text: SESSION, columns: ["read_only", "pid", "started"] });
  const pid = Number(row?.pid);
  const session = pid === client.processID ? { pid, started: String(row?.started) } : undefined;
  return { isReadOnly: row?.read_only === "on", session };
}

/** How a server is reached apart from the connection on which something has to be stopped. */
interface OtherWay {
  cancel(): Promise<StopResult>;
  make(): OwnClient;
}

/** Cancelled so often in vain, a request may be one that cannot be stopped, or be on another server. */
const CANCELS = 4;

/**
 * Stops what runs on a connection: by a cancel request, which takes none of the server's connections; and if that
 * does not help, by ending its session, if the server has it. That takes a connection, so sessions are ended one after
 * the other.
 */
class RequestStopper {
  readonly requestTimeout: RequestTimeout;
  #last: Promise<unknown> = Promise.resolve();

  constructor(timeoutMs: number) {
    this.requestTimeout = stopTimeout(timeoutMs);
  }

  stop({ cancel, make }: OtherWay, session: ServerSession | undefined, attempt: number): Promise<StopResult> {
    if (attempt <= CANCELS) return inTime(cancel(), this.requestTimeout).catch(unreachable);
    if (session === undefined) return Promise.resolve("absent");
    const ended = this.#last.then(() => terminate(make(), session, this.requestTimeout));
    this.#last = ended.catch(ignore);
    return ended;
  }
}

const unreachable = (): StopResult => "unreachable";

/** Ends the server process of a request that cannot be cancelled, if it is there. */
async function terminate(
  client: OwnClient & CancelSender & { destroy?(): void },
  { pid, started }: ServerSession,
  requestTimeout: RequestTimeout,
): Promise<StopResult> {
  const text =
    "SELECT pg_terminate_backend(pid) AS told FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2";
  client.on("error", ignore);
  const ask = async (): Promise<StopResult> => {
    try {
      await client.connect();
      const found = await firstRow(client, { text, values: [pid, started], columns: ["told"] });
      return found === undefined ? "absent" : "repeat";
    } catch (error) {
      // It is there, but has no connection left, or is starting up.
      return /^(53|57P)/.test(codeOf(error)) ? "repeat" : "unreachable";
    }
  };
  try {
    return await inTime(ask(), requestTimeout).catch(unreachable);
  } finally {
    // Waited for, so that the next one does not come beside it; and cut off, if the server does not answer.
    await inTime(client.end(), requestTimeout).catch(() => {
      if (client.connection === undefined) client.destroy?.();
      else client.connection.stream.destroy();
    });
  }
}
