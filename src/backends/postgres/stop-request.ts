import type { RequestTimeout } from "../../engine-kit/request-timeout.js";
import { codeOf } from "../sql/errors.js";
import type { Stop } from "../sql/pool.js";
import {
  type CancelSender,
  type CancelTarget,
  firstRow,
  type OwnClient,
  type PgPoolLike,
  type PgSession,
} from "./library.js";

/** The server process behind a connection. Its start tells it from one with the same id on another server. */
export interface ServerSession {
  readonly pid: number;
  readonly started: string;
}

/** Cancelled so often in vain, a request may be one that cannot be stopped, or be on another server. */
const CANCELS = 4;

const SESSION = `SELECT current_setting('transaction_read_only') AS read_only, pg_backend_pid() AS pid,
  (SELECT backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS started`;

const asIs = (error: unknown) => error as Error;

const SESSION_COLUMNS = ["read_only", "pid", "started"];

/** Asked of each new connection. Behind a pooler there is no session: what it says is of no use later. */
export async function sessionOf(
  client: PgSession & Pick<CancelTarget, "processID">,
): Promise<{ readonly isReadOnly: boolean; readonly session: ServerSession | undefined }> {
  const row = await firstRow(client, { text: SESSION, columns: SESSION_COLUMNS });
  const pid = Number(row?.pid);
  const session = pid === client.processID ? { pid, started: String(row?.started) } : undefined;
  return { isReadOnly: row?.read_only === "on", session };
}

/** How a server is reached apart from the connection on which something has to be stopped. */
export interface OtherWay {
  cancel(): Promise<Stop>;
  make(): OwnClient;
}

/** What all connections of a pool share to stop requests. */
export interface Stopping {
  readonly ender: SessionEnder;
  readonly requestTimeout: RequestTimeout;
}

/**
 * Stops what runs on a connection: by a cancel request, which takes none of the server's connections; and if that
 * does not help, by ending its session, if the server has it.
 */
export async function stopRequest(
  { cancel, make }: OtherWay,
  session: ServerSession | undefined,
  attempt: number,
  { ender, requestTimeout }: Stopping,
): Promise<Stop> {
  if (attempt <= CANCELS) return bounded(cancel(), requestTimeout);
  return session === undefined ? "absent" : ender.end(make, session, requestTimeout);
}

/** The same for a connection of the caller's pool, by clients that are made as the pool makes them. */
export async function stopBorrowed(
  pool: PgPoolLike & { readonly Client?: unknown },
  target: CancelTarget,
  session: ServerSession | undefined,
  attempt: number,
  stopping: Stopping,
): Promise<Stop> {
  if (typeof pool.Client !== "function") return "absent";
  const Client = pool.Client as new (options: unknown) => OwnClient & CancelSender;
  const make = () => new Client(pool.options);
  const cancel = () => sendCancel(make(), target, stopping.requestTimeout);
  return stopRequest({ cancel, make }, session, attempt, stopping);
}

/** Ends sessions whose request cannot be cancelled, one after the other: it takes a connection. */
export class SessionEnder {
  #last: Promise<unknown> = Promise.resolve();

  end(make: () => OwnClient, session: ServerSession, requestTimeout: RequestTimeout): Promise<Stop> {
    const ended = this.#last.then(() => terminate(make(), session, requestTimeout));
    this.#last = ended.catch(() => undefined);
    return ended;
  }
}

/** "told" as soon as the server has closed the connection of the cancel request, which it does when it has acted. */
export function sendCancel(
  sender: CancelSender,
  target: CancelTarget,
  requestTimeout: RequestTimeout,
): Promise<Stop> {
  const { connection, host = "", port = 0, ssl } = sender;
  const { processID, secretKey } = target;
  if (connection === undefined || typeof processID !== "number" || typeof secretKey !== "number") {
    return Promise.resolve("absent");
  }
  const told = new Promise<Stop>((resolve) => {
    let sent = false;
    const over = () => resolve(sent ? "told" : "unreachable");
    connection.on("error", over);
    connection.on("end", over);
    const send = () => {
      sent = true;
      connection.cancel(processID, secretKey);
    };
    connection.on("connect", () => (ssl ? connection.requestSsl() : send()));
    connection.on("sslconnect", send);
    if (host.startsWith("/")) connection.connect(`${host}/.s.PGSQL.${port}`);
    else connection.connect(port, host);
  });
  return bounded(told, requestTimeout, () => connection.stream.destroy());
}

/** Ends the server process of a request that cannot be cancelled, if it is there. */
async function terminate(
  client: OwnClient,
  { pid, started }: ServerSession,
  requestTimeout: RequestTimeout,
): Promise<Stop> {
  const text =
    "SELECT pg_terminate_backend(pid) AS told FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2";
  client.on("error", () => {});
  const ask = async (): Promise<Stop> => {
    try {
      await client.connect();
      const found = await firstRow(client, { text, values: [pid, started], columns: ["told"] });
      return found === undefined ? "absent" : "told";
    } catch (error) {
      // It is there, but has no connection left, or is starting up.
      return /^(53|57P)/.test(codeOf(error)) ? "told" : "unreachable";
    }
  };
  try {
    return await bounded(ask(), requestTimeout);
  } finally {
    // Waited for, so that the next one does not come beside it; and cut off, if the server does not answer.
    const over = client.end().then((): Stop => "told");
    if ((await bounded(over, requestTimeout)) !== "told") cutOff(client);
  }
}

function cutOff(client: OwnClient & CancelSender & { destroy?(): void }): void {
  if (client.connection === undefined) client.destroy?.();
  else client.connection.stream.destroy();
}

async function bounded(work: Promise<Stop>, requestTimeout: RequestTimeout, late = () => {}): Promise<Stop> {
  const tooLate = () => {
    late();
    return new Error("no answer");
  };
  return requestTimeout.bound(work, asIs, tooLate).catch((): Stop => "unreachable");
}
