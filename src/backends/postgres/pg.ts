import { absent, refuseOlder } from "../../engine-kit/client-library.js";
import type { RequestTimeout } from "../../engine-kit/request-timeout.js";
import { socketTls } from "../../engine-kit/tls.js";
import type { Host } from "../../engine-kit/url.js";
import { inTime } from "../sql/open-pool.js";
import type { DatabaseAddress } from "../sql/options.js";
import type { StopResult } from "../sql/pool.js";
import {
  type CancelSender,
  type CancelTarget,
  type Connector,
  LOWEST_VERSIONS,
  loginOf,
  type PgClient,
  type PgStream,
  type PostgresParameters,
  startupOf,
} from "./library.js";

interface PgLibrary {
  readonly Client: new (config: object) => PgClient;
}

/** None if it is not installed. */
async function pgLibrary(): Promise<PgLibrary | undefined> {
  try {
    const module: { readonly default: unknown } = await import("pg");
    return module.default as PgLibrary;
  } catch (error) {
    return absent("pg", error);
  }
}

/** Connections by URL; none if the library is not installed. */
export async function pgConnector(address: DatabaseAddress): Promise<Connector | undefined> {
  const library = await pgLibrary();
  if (library === undefined) return undefined;
  await refuseOlder("pg", LOWEST_VERSIONS);
  const { channelBinding } = address.parameters as PostgresParameters;
  const make = ({ host, port }: Host, timeoutMs: number) => {
    const config = {
      ...loginOf(address),
      ...startupOf(address),
      host,
      port,
      ssl: address.tls === undefined ? false : socketTls(address.tls, host),
      connectionTimeoutMillis: timeoutMs,
      keepAlive: true,
      ...(channelBinding === undefined ? undefined : { enableChannelBinding: true }),
    };
    const client = guarded(new library.Client(config));
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

/** `repeat` as soon as the server has closed the connection of the cancel request, which it does when it has acted. */
export function sendCancel(
  sender: CancelSender,
  target: CancelTarget,
  requestTimeout: RequestTimeout,
): Promise<StopResult> {
  const { connection, host = "", port = 0, ssl } = sender;
  const { processID, secretKey } = target;
  if (connection === undefined || typeof processID !== "number" || typeof secretKey !== "number") {
    return Promise.resolve("absent");
  }
  const told = new Promise<StopResult>((resolve) => {
    let sent = false;
    const over = () => resolve(sent ? "repeat" : "unreachable");
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
  return inTime(told, requestTimeout).catch((): StopResult => {
    connection.stream.destroy();
    return "unreachable";
  });
}

/** Far more than any answer of ours. */
const LONGEST_MESSAGE = 16 * 1_024 * 1_024;
const HEADER_BYTES = 5;
/** An error and a notice: fields up to one that is empty. */
const FIELDS: ReadonlySet<number> = new Set([0x45, 0x4e]);

/**
 * pg reads what the server sends in a listener of its socket. On what is none of PostgreSQL's messages it throws there,
 * which would end the process; or it looks without end for the last field of an error, which would block it. So on
 * connections of ours each message is looked at first, and what is thrown all the same ends the connection only.
 */
function guarded(client: PgClient): PgClient {
  const { connection, ssl } = client;
  if (connection === undefined) return client;
  // With TLS another stream takes over, as soon as the server has agreed to it.
  if (!ssl) guard(connection.stream);
  connection.on("sslconnect", () => guard(connection.stream));
  return client;
}

function guard(stream: PgStream): void {
  const messages = new Messages();
  const emit = stream.emit.bind(stream);
  stream.emit = (event, ...args) => {
    if (event !== "data") return emit(event, ...args);
    try {
      if (messages.areSound(args[0] as Buffer)) return emit(event, ...args);
      stream.destroy(notPostgres());
    } catch (cause) {
      stream.destroy(notPostgres(cause));
    }
    return true;
  };
}

/** Follows what is received from message to message, however it is cut into pieces. */
export class Messages {
  readonly #header = Buffer.alloc(HEADER_BYTES);
  #headerBytes = 0;
  /** How much of a message is still to come, and the last two bytes of it so far. */
  #rest = 0;
  #tail = 0;

  areSound(bytes: Buffer): boolean {
    for (let at = 0; at < bytes.length; ) {
      if (this.#headerBytes < HEADER_BYTES) {
        this.#header[this.#headerBytes++] = bytes[at++] as number;
        if (this.#headerBytes < HEADER_BYTES) continue;
        const length = this.#header.readInt32BE(1);
        if (length < 4 || length > LONGEST_MESSAGE) return false;
        this.#rest = length - 4;
        this.#tail = 0xffff;
      }
      const end = at + Math.min(this.#rest, bytes.length - at);
      this.#rest -= end - at;
      for (at = Math.max(at, end - 2); at < end; at++) {
        this.#tail = ((this.#tail << 8) | (bytes[at] as number)) & 0xffff;
      }
      if (this.#rest > 0) return true;
      this.#headerBytes = 0;
      // The last field ends with a zero, and the empty one after it is another.
      if (this.#tail !== 0 && FIELDS.has(this.#header[0] as number)) return false;
    }
    return true;
  }
}

function notPostgres(cause?: unknown): Error {
  return new Error("what the server sends is none of PostgreSQL's messages", { cause });
}

const MECHANISM = "SCRAM-SHA-256-PLUS";

/**
 * The library uses channel binding where the server offers it, and goes on without it elsewhere. Here a server that
 * does not offer it is left before it has seen an answer, and one that does not go through with it before it has
 * seen a request: it may be an attacker on the network.
 */
function requireChannelBinding(client: PgClient): void {
  const { connection } = client;
  let isBound = false;
  const leave = (why: string) => {
    // At once: what else has come from the server is read in the same turn.
    connection?.emit("error", new Error(`channel binding: ${why}`));
    connection?.stream.destroy();
  };
  // These are the first listeners, so they run before those of the library.
  connection?.on("authenticationSASL", ({ mechanisms }) => {
    if (client.enableChannelBinding !== true) leave("pg 8.14 or later is needed");
    else if (!mechanisms?.includes(MECHANISM)) leave("the server does not offer it");
  });
  connection?.on("authenticationSASLFinal", () => {
    isBound = true;
  });
  connection?.on("authenticationOk", () => {
    if (!isBound) leave("the server lets us in without it");
  });
  for (const other of ["authenticationCleartextPassword", "authenticationMD5Password"] as const) {
    connection?.on(other, () => leave("the server asks for the password itself"));
  }
}
