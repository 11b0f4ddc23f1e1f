import { EventEmitter } from "node:events";
import { connect as connectSocket, type Socket } from "node:net";
import { nowMs } from "../../core/clock.js";
import { hasMethods, LockError, partOf } from "../../core/errors.js";
import { startTimer } from "../../core/timer.js";
import { absent, refuseOlder } from "../../engine-kit/client-library.js";
import { socketTls, type TlsSettings } from "../../engine-kit/tls.js";
import type { Host } from "../../engine-kit/url.js";
import type { DatabaseAddress } from "../sql/options.js";
import type { StopResult } from "../sql/pool.js";
import {
  type Connector,
  LOWEST_VERSIONS,
  loginOf,
  type OwnClient,
  type PgQuery,
  type PostgresParameters,
  startupOf,
} from "./library.js";

/** What we use of `sql`, as `postgres()` of postgres.js makes it. */
export interface PostgresJsSql {
  unsafe(text: string): unknown;
  begin(work: never): unknown;
  listen(channel: string, onNotification: never): unknown;
  /** As the library has read them, from a URL, an object and the environment. */
  readonly options: { readonly host: string[]; readonly port: number[] };
}

/** The same inside a transaction, or on a reserved connection, has no `listen`. */
export function isPostgresJs(sql: unknown): sql is PostgresJsSql {
  const isWhole = typeof sql === "function" && hasMethods(sql, ["unsafe", "begin", "listen"]);
  const hosts = partOf(partOf(sql, "options"), "host");
  return isWhole && Array.isArray(hosts) && Array.isArray(partOf(partOf(sql, "options"), "port"));
}

export function hostsOf({ options }: PostgresJsSql): Host[] {
  return options.host.map((host, index) => ({ host, port: options.port[index] ?? 5432 }));
}

/** What the library takes besides: those that are ours. All others are as the caller has them. */
interface Options {
  readonly host: string[];
  readonly port: number[];
  readonly path: string | false;
  readonly prepare: boolean;
  /** Made by the caller: a tunnel, say. */
  readonly socket?: ((options: object) => unknown) | undefined;
}

interface Result extends ReadonlyArray<unknown> {
  readonly state?: { readonly pid?: unknown };
}

/** It is sent when it is awaited; `raw` gives each row as a list of bytes. */
interface Query extends PromiseLike<Result> {
  raw(): Query;
  readonly canceller?: unknown;
}

interface OwnSql {
  unsafe(text: string, values: readonly unknown[], options: { readonly prepare: boolean }): Query;
  end(options: { readonly timeout: number }): Promise<void>;
  readonly options: Options;
}

type Library = (options: object) => OwnSql;

const NEEDS_PG =
  "channel_binding=require in the URL needs the package pg, version 8.14 or later: npm install pg. Without it, leave channel_binding out: sslmode=require checks the server's certificate.";

const ignore = () => {};

/** None if it is not installed. */
async function postgresJs(): Promise<Library | undefined> {
  try {
    const module: { readonly default: unknown } = await import("postgres");
    return module.default as Library;
  } catch (error) {
    return absent("postgres", error);
  }
}

/** Connections of our own, with the settings of the caller's `sql`. */
export async function connectorBySql(sql: PostgresJsSql): Promise<Connector> {
  const library = await postgresJs();
  if (library !== undefined) return connectorOf(library, sql.options as unknown as Options);
  throw new LockError(
    "unsupported",
    'a sql of postgres.js needs the package "postgres": npm install postgres.',
  );
}

/** Connections by URL; none if the library is not installed. */
export async function postgresJsConnector(address: DatabaseAddress): Promise<Connector | undefined> {
  const library = await postgresJs();
  if (library === undefined) return undefined;
  await refuseOlder("postgres", LOWEST_VERSIONS);
  const { hosts, tls, parameters } = address;
  if ((parameters as PostgresParameters).channelBinding === "require") {
    throw new LockError("unsupported", NEEDS_PG);
  }
  const { password: pass, ...login } = loginOf(address);
  const given = { ...login, pass, ...hosts[0], connection: startupOf(address), ssl: false };
  // With all options as the library reads them. It opens nothing until it is asked.
  const { options } = library(given);
  // Whether a host is a socket is decided for each of them.
  return connectorOf(library, { ...options, path: false }, tls);
}

function connectorOf(library: Library, options: Options, tls?: TlsSettings): Connector {
  const forHost = ({ host }: Host) =>
    tls === undefined ? options : { ...options, ssl: socketTls(tls, host) };
  return {
    library: "postgres",
    make: (host, timeoutMs) => new PostgresJsClient(library, forHost(host), host, timeoutMs),
    cancel: (client) => (client as PostgresJsClient).cancel(),
    destroy: (client) => (client as PostgresJsClient).destroy(),
  };
}

/**
 * One connection by postgres.js, as a client of `pg` would be. Connections of the caller's are not used: the library
 * can neither close one of them nor let go of one on which a request hangs.
 */
class PostgresJsClient extends EventEmitter implements OwnClient {
  readonly #sql: OwnSql;
  readonly #mayPrepare: boolean;
  readonly #timeoutMs: number;
  /** A tunnel of the caller's may be a stream that has no more than a stream has. */
  #socket: (Omit<Socket, "ref" | "unref"> & { ref?(): unknown; unref?(): unknown }) | undefined;
  #isReffed = true;
  #isGone = false;
  #isCancelling = false;
  #asked: Query | undefined;
  processID: number | null = null;

  constructor(library: Library, options: Options, host: Host, timeoutMs: number) {
    super();
    this.#mayPrepare = options.prepare;
    this.#timeoutMs = timeoutMs;
    this.#sql = library({
      ...options,
      host: [host.host],
      port: [host.port],
      // Which server can write we ask ourselves, as with every library.
      target_session_attrs: null,
      max: 1,
      idle_timeout: null,
      max_lifetime: null,
      connect_timeout: timeoutMs / 1000,
      // A connection that breaks while it asks for the types of lists would end the process.
      fetch_types: false,
      no_subscribe: true,
      // Names and numbers reach the server as they are, whatever the caller does to values and rows.
      serializers: {},
      parsers: {},
      transform: { undefined: undefined, column: {}, value: {}, row: {} },
      shared: { retries: 0, typeArrayMap: {} },
      parameters: {},
      debug: false,
      onnotice: ignore,
      onparameter: undefined,
      onnotify: (channel: string, payload: string) => this.emit("notification", { channel, payload }),
      onclose: () => {
        this.#isGone = true;
        this.emit("end");
      },
      socket: (given: object) => this.#open(options, host, given),
    });
    // It has no listener while it is given back to the pool, and would be thrown.
    this.on("error", ignore);
  }

  /** The first question opens it. */
  async connect(): Promise<void> {}

  /** Values and rows are texts, and what has no columns may be several statements. */
  async query({
    text,
    values = [],
    columns = [],
    name,
  }: PgQuery): Promise<{ rows: readonly Record<string, unknown>[] }> {
    // The library would make another connection, which our pool does not count or close.
    if (this.#isGone) throw brokenError();
    const texts = values.map((value) => (value === null ? null : String(value)));
    const asked = this.#sql.unsafe(text, texts, { prepare: name !== undefined && this.#mayPrepare });
    this.#asked = columns.length === 0 ? asked : asked.raw();
    const result = await this.#asked;
    const pid = result.state?.pid;
    if (typeof pid === "number") this.processID = pid;
    return { rows: columns.length === 0 ? [] : result.map((row) => named(columns, row)) };
  }

  /** By a connection that the library makes for it. Its own `cancel` leaves a rejection unhandled. */
  async cancel(): Promise<StopResult> {
    const cancel = this.#asked?.canceller;
    if (typeof cancel !== "function") return "absent";
    this.#isCancelling = true;
    const sentMs = nowMs();
    const told: unknown = cancel.call(this.#asked, this.#asked);
    this.#isCancelling = false;
    await told;
    // The server closes that connection when it has acted; the library does so when nothing came within its time.
    return nowMs() - sentMs < this.#timeoutMs ? "repeat" : "unreachable";
  }

  async end(): Promise<void> {
    this.#isGone = true;
    await this.#sql.end({ timeout: 1 });
  }

  destroy(): void {
    this.#isGone = true;
    this.#socket?.destroy();
  }

  ref(): void {
    this.#isReffed = true;
    this.#socket?.ref?.();
  }

  unref(): void {
    this.#isReffed = false;
    this.#socket?.unref?.();
  }

  /**
   * As the library would, but the socket is known here: there is no other way to let a program end, or to cut a
   * connection off. Once only, because the library would connect again, without end and without a pause, to a server
   * that accepts connections and closes them.
   */
  async #open({ path, socket: make }: Options, { host, port }: Host, given: object): Promise<unknown> {
    const isForCancel = this.#isCancelling;
    if (!isForCancel && (this.#isGone || this.#socket !== undefined)) throw brokenError();
    const socketPath = host.startsWith("/") ? `${host}/.s.PGSQL.${port}` : path;
    const made = make?.(given) ?? connectSocket(socketPath ? { path: socketPath } : { host, port });
    const isReady = made instanceof Promise;
    const socket = (await made) as Socket;
    if (!isForCancel) {
      this.#socket = socket;
      if (!this.#isReffed) socket.unref?.();
    }
    if (!isReady && socket.connecting) await connected(socket, this.#timeoutMs);
    if (!isForCancel && this.#isGone) {
      socket.destroy();
      throw brokenError();
    }
    // For the name that a certificate has to have.
    return Object.assign(socket, { host, port });
  }
}

function brokenError(): Error {
  return Object.assign(new Error("the connection was closed"), { code: "CONNECTION_CLOSED" });
}

/** Until the server has accepted it, within that time. */
function connected(socket: Socket, timeoutMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = Object.assign(new Error(`no connection within ${timeoutMs} ms`), { code: "ETIMEDOUT" });
    const timer = startTimer(() => socket.destroy(late), timeoutMs);
    const over = (error?: Error) => {
      clearTimeout(timer);
      socket.off("connect", over).off("error", over).off("close", closed);
      // The library listens for errors only when it has the socket.
      if (error !== undefined) socket.on("error", ignore);
      if (error === undefined) resolve();
      else reject(error);
    };
    const closed = () => over(brokenError());
    socket.on("connect", over).on("error", over).on("close", closed);
  });
}

function named(columns: readonly string[], row: unknown): Record<string, unknown> {
  const cells = row as readonly (Buffer | null)[];
  return Object.fromEntries(columns.map((column, index) => [column, cells[index]?.toString() ?? null]));
}
