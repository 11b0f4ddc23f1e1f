import { connect } from "node:http2";
import type { Duplex } from "node:stream";
import { startInterval, startTimer } from "../../core/timer.js";
import type { Method } from "./library.js";
import type { WatchRequest, WatchResponse } from "./messages.js";

/** etcd hangs up on a client that asks for a sign of life more often than every 5 s. */
const PULSE_MS = 10_000;
/** In front of each message: whether it is compressed, and its length. */
const HEAD_BYTES = 5;

export interface WatchTarget {
  /** As in `https://127.0.0.1:2379`. */
  readonly origin: string;
  /** Opens the connection, TLS included. */
  open(): Duplex;
  /** How long connecting may take. */
  readonly timeoutMs: number;
  readonly headers: Readonly<Record<string, string>>;
}

export interface WatchEvents {
  heard(answer: WatchResponse): void;
  /** Once, when it has ended for whatever reason. */
  broke(): void;
}

const OK = 200;

/**
 * The stream of all watches, on a connection of its own that does not keep the process alive: a waiter has a timer
 * that does, and a process that only holds a lock may end. The gRPC library keeps a process alive for as long as it has
 * a stream open, and has no way to change that.
 */
export class WatchStream {
  readonly #session;
  readonly #stream;
  readonly #method: Method;
  readonly #connecting: NodeJS.Timeout;
  readonly #pulse: NodeJS.Timeout;
  #events: WatchEvents | undefined;
  /** What has come of a message that is not complete, and how many bytes it takes until one is. */
  #parts: Buffer[] = [];
  #size = 0;
  #needed = HEAD_BYTES;
  #isAlive = true;
  #ended = false;

  constructor({ origin, open, timeoutMs, headers }: WatchTarget, method: Method) {
    this.#method = method;
    const end = () => this.#end();
    this.#session = connect(origin, { createConnection: open });
    this.#session.unref();
    this.#session.on("error", end);
    // From then on nothing new may be asked on it, and nothing tells whether the server is there.
    this.#session.on("goaway", end);
    this.#session.on("close", end);
    this.#stream = this.#session.request({
      ...headers,
      ":method": "POST",
      ":path": method.path,
      "content-type": "application/grpc",
      te: "trailers",
    });
    this.#stream.on("response", (answered) => {
      if (answered[":status"] !== OK) end();
    });
    this.#stream.on("data", (bytes: Buffer) => this.#received(bytes));
    this.#stream.on("error", end);
    this.#stream.on("close", end);
    this.#connecting = startTimer(end, timeoutMs).unref();
    this.#session.once("connect", () => clearTimeout(this.#connecting));
    this.#pulse = startInterval(() => this.#checkHeartbeat(), PULSE_MS).unref();
  }

  listen(events: WatchEvents): void {
    this.#events = events;
    if (this.#ended) events.broke();
  }

  write(request: WatchRequest): void {
    if (this.#ended) return;
    const body = this.#method.requestSerialize(request);
    const message = Buffer.alloc(HEAD_BYTES + body.length);
    message.writeUInt32BE(body.length, 1);
    body.copy(message, HEAD_BYTES);
    this.#stream.write(message);
  }

  cancel(): void {
    this.#session.destroy();
  }

  #received(bytes: Buffer): void {
    this.#isAlive = true;
    this.#parts.push(bytes);
    this.#size += bytes.length;
    if (this.#size < this.#needed) return;
    try {
      const rest = this.#readAll(Buffer.concat(this.#parts));
      this.#parts = [rest];
      this.#size = rest.length;
    } catch {
      // This is not etcd. Thrown from here, it would end the process.
      this.cancel();
    }
  }

  /** Returns what is left behind the last complete message. */
  #readAll(bytes: Buffer): Buffer {
    let rest = bytes;
    for (;;) {
      this.#needed = HEAD_BYTES;
      if (rest.length < HEAD_BYTES) return rest;
      this.#needed += rest.readUInt32BE(1);
      if (rest.length < this.#needed) return rest;
      const message = rest.subarray(HEAD_BYTES, this.#needed);
      rest = rest.subarray(this.#needed);
      this.#events?.heard(this.#method.responseDeserialize(message) as WatchResponse);
    }
  }

  /** Nothing is sent on it, so a server that has fallen silent would go unnoticed. */
  #checkHeartbeat(): void {
    if (!this.#isAlive) {
      this.cancel();
      return;
    }
    this.#isAlive = false;
    this.#session.ping((error) => {
      // A session that is going away answers with an error, without asking the server.
      if (error === null) this.#isAlive = true;
    });
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#connecting);
    clearInterval(this.#pulse);
    this.#session.destroy();
    this.#events?.broke();
  }
}
