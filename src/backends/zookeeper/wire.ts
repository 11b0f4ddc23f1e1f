import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { nowMs, type Sent, sendingNow } from "../../core/clock.js";
import type { LockError } from "../../core/errors.js";
import { startInterval, startTimer } from "../../core/timer.js";
import { socketTls } from "../../engine-kit/tls.js";
import type { Host } from "../../engine-kit/url.js";
import { failed, refusal, unreachable } from "./errors.js";
import { JuteReader, messageLength, notZooKeeper, takeMessage } from "./jute.js";
import {
  authFrame,
  connectFrame,
  ERROR,
  type Handshake,
  NODE_DELETED,
  pingFrame,
  type Request,
  readConnected,
  requestFrame,
  XID,
} from "./messages.js";
import type { ZooKeeperSettings } from "./options.js";

/** How many times as long a request may wait if others before it are answered meanwhile. */
const MOST_PATIENCE = 10;

/** After these a server answers nothing more. */
const FINAL_REFUSALS: ReadonlySet<number> = new Set([
  ERROR.sessionMoved,
  ERROR.sessionExpired,
  ERROR.authRequired,
]);

interface Pending {
  readonly request: Request<unknown>;
  readonly sent: Sent;
  resolve(value: unknown): void;
  reject(error: LockError): void;
}

export interface WireEvents {
  /** What went out then has been answered; and it was a write that was acknowledged. */
  answered(sent: Sent): void;
  proven(sent: Sent): void;
  /** The node of a watch was deleted, or only changed. */
  changed(path: string, deleted: boolean): void;
  /** It is of no use any more; what was pending has failed. */
  lost(error: LockError): void;
}

/** One connection to one server. Requests go out at once and are answered in their order. */
export class Wire {
  readonly #socket: Socket;
  readonly #where: string;
  readonly #replyMs: number;
  #events: WireEvents | undefined;
  readonly #pending = new Map<number, Pending>();
  #outgoing: Buffer[] = [];
  #incoming: Buffer[] = [];
  #incomingLength = 0;
  #lastXid = 0;
  #lastSentMs = nowMs();
  #heardMs = nowMs();
  /** A ping is out since then. */
  #pinged: Sent | undefined;
  #watchdog: NodeJS.Timeout | undefined;
  readonly #pinger: NodeJS.Timeout;
  /** Why it is of no use any more. */
  failure: LockError | undefined;
  /** The newest change that this session has seen, which no server may fall behind. */
  lastZxid: bigint;

  private constructor(
    socket: Socket,
    where: string,
    { address: { username, password }, timeoutMs }: ZooKeeperSettings,
    sessionMs: number,
    lastZxid: bigint,
  ) {
    this.#socket = socket;
    this.#where = where;
    this.#replyMs = Math.min(timeoutMs, (sessionMs * 2) / 3);
    this.lastZxid = lastZxid;
    // What is waited for keeps the process alive; a connection alone does not.
    socket.setNoDelay(true).unref();
    socket.on("data", (bytes) => this.#received(bytes));
    socket.on("error", (error) => this.close(failed(where, error)));
    socket.on("close", () => this.close(unreachable(where, "the server has closed the connection.")));
    if (username !== undefined && password !== undefined) this.#out(authFrame(username, password));
    // So often that something is answered in every twelfth of the timeout, also if that takes a moment: see SessionTrust.
    this.#pinger = startInterval(() => this.#ping(sessionMs / 60), sessionMs / 20).unref();
  }

  /** Connects, and makes the session or takes it over. `undefined` if it is over. */
  static async open(
    settings: ZooKeeperSettings,
    { host, port }: Host,
    handshake: Handshake,
    limitMs: number,
  ): Promise<{ wire: Wire; session: Omit<Handshake, "lastZxid">; sent: Sent } | undefined> {
    const { tls } = settings;
    const where = `${host}:${port}`;
    const socket =
      tls === undefined ? connect({ host, port }) : connectTls({ host, port, ...socketTls(tls, host) });
    try {
      const { sent, reply, rest } = await performHandshake(socket, tls !== undefined, handshake, limitMs);
      const session = readConnected(reply);
      if (session.timeoutMs <= 0) {
        socket.destroy();
        return undefined;
      }
      const wire = new Wire(socket, where, settings, session.timeoutMs, handshake.lastZxid);
      if (rest.length > 0) wire.#received(rest);
      return { wire, session, sent };
    } catch (error) {
      socket.destroy();
      throw failed(where, error);
    }
  }

  /** What has come before is not told; only a failure is. */
  listen(events: WireEvents): void {
    this.#events = events;
    if (this.failure !== undefined) events.lost(this.failure);
  }

  send<T>(request: Request<T>): Promise<T> {
    if (this.failure !== undefined) return Promise.reject(this.failure);
    return new Promise<T>((resolve, reject) => {
      this.#lastXid = (this.#lastXid + 1) & 0x7fffffff;
      const sent = this.#out(requestFrame(this.#lastXid, request));
      const pending = { request, sent, resolve: resolve as (value: unknown) => void, reject };
      this.#pending.set(this.#lastXid, pending);
      this.#watchPending();
    });
  }

  #out(frame: Buffer): Sent {
    const sent = sendingNow();
    this.#lastSentMs = sent.atMs;
    // All that is asked for in one turn goes out as one packet.
    if (this.#outgoing.length === 0) queueMicrotask(() => this.#flush());
    this.#outgoing.push(frame);
    return sent;
  }

  #flush(): void {
    const [first] = this.#outgoing;
    if (first === undefined || this.failure !== undefined) return;
    this.#socket.write(this.#outgoing.length === 1 ? first : Buffer.concat(this.#outgoing));
    this.#outgoing = [];
  }

  #ping(quietMs: number): void {
    if (this.#pinged !== undefined || nowMs() - this.#lastSentMs < quietMs) return;
    this.#pinged = this.#out(pingFrame());
    this.#watchPending();
  }

  /** One timer for all requests: the oldest one tells whether the server still answers. */
  #watchPending(): void {
    const busy = this.#pending.size > 0;
    if (this.#watchdog === undefined) {
      this.#watchdog = startTimer(() => this.#look(), this.#replyMs);
      if (!busy) this.#watchdog.unref();
    } else if (busy) this.#watchdog.ref();
  }

  /** A server that answers something is alive; but no request may wait for ever behind others. */
  #look(): void {
    this.#watchdog = undefined;
    const [oldest] = this.#pending.values();
    const sinceMs = Math.min(oldest?.sent.atMs ?? Infinity, this.#pinged?.atMs ?? Infinity);
    if (sinceMs === Infinity) return;
    const replyMs = this.#replyMs;
    const untilMs = Math.min(Math.max(sinceMs, this.#heardMs) + replyMs, sinceMs + replyMs * MOST_PATIENCE);
    const restMs = untilMs - nowMs();
    if (restMs > 0) {
      this.#watchdog = startTimer(() => this.#look(), restMs);
      if (oldest === undefined) this.#watchdog.unref();
      return;
    }
    this.close(unreachable(this.#where, `no answer within ${Math.round(replyMs)} ms.`));
  }

  #received(bytes: Buffer): void {
    this.#heardMs = nowMs();
    this.#incoming.push(bytes);
    this.#incomingLength += bytes.length;
    try {
      // A long message comes in many pieces; they are joined once, when it is whole.
      const [first = bytes] = this.#incoming;
      if (first.length >= 4 && this.#incomingLength < 4 + messageLength(first)) return;
      let rest = this.#incoming.length === 1 ? bytes : Buffer.concat(this.#incoming);
      for (let message = takeMessage(rest); message !== undefined; message = takeMessage(rest)) {
        rest = rest.subarray(4 + message.length);
        this.#handle(new JuteReader(message));
        if (this.failure !== undefined) return;
      }
      this.#incoming = rest.length === 0 ? [] : [rest];
      this.#incomingLength = rest.length;
    } catch (error) {
      this.close(unreachable(this.#where, notZooKeeper().message, error));
    }
  }

  #handle(from: JuteReader): void {
    const xid = from.int();
    const zxid = from.long();
    const code = from.int();
    if (zxid > this.lastZxid) this.lastZxid = zxid;
    if (xid === XID.ping) {
      if (this.#pinged !== undefined) this.#events?.answered(this.#pinged);
      this.#pinged = undefined;
    } else if (xid === XID.watchEvent) {
      const type = from.int();
      from.int();
      this.#events?.changed(from.text(), type === NODE_DELETED);
    } else if (xid === XID.auth) {
      if (code !== 0) this.close(refusal(code, this.#where));
    } else {
      this.#answer(xid, code, from);
    }
  }

  #answer(xid: number, code: number, from: JuteReader): void {
    const pending = this.#pending.get(xid);
    if (pending === undefined) throw new Error("an answer to nothing");
    // It stays pending until it has been read: one that cannot be read fails with the connection.
    const value = code === 0 ? pending.request.read(from) : undefined;
    this.#pending.delete(xid);
    if (this.#pending.size === 0) this.#watchdog?.unref();
    this.#events?.answered(pending.sent);
    if (code === 0) {
      if (pending.request.writes) this.#events?.proven(pending.sent);
      pending.resolve(value);
      return;
    }
    const error = refusal(code, this.#where);
    pending.reject(error);
    // The session is connected elsewhere, or nowhere, or not let in: there is nothing to be had here any more.
    if (FINAL_REFUSALS.has(code)) this.close(error);
  }

  /** Requests that wait for an answer are told that there will be none. */
  close(error: LockError): void {
    if (this.failure !== undefined) return;
    this.failure = error;
    clearInterval(this.#pinger);
    clearTimeout(this.#watchdog);
    this.#socket.destroy();
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
    this.#events?.lost(error);
  }
}

/** Sends the first request of a connection, and waits for its answer. */
function performHandshake(
  socket: Socket,
  secure: boolean,
  handshake: Handshake,
  limitMs: number,
): Promise<{ sent: Sent; reply: Buffer; rest: Buffer }> {
  return new Promise((resolve, reject) => {
    let sent = sendingNow();
    let received: Buffer = Buffer.alloc(0);
    const onClose = () =>
      fail(
        new Error(
          "the server closes connections at once. Has the ensemble no quorum, this host too many connections (maxClientCnxns), or does the server speak TLS at this port (zookeepers://)?",
        ),
      );
    const onData = (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      try {
        const reply = takeMessage(received);
        if (reply === undefined) return;
        stop();
        resolve({ sent, reply, rest: received.subarray(4 + reply.length) });
      } catch (error) {
        fail(error);
      }
    };
    // That it closes comes as an error if it has not read what we said, or we say it later.
    const onError = (error: Error & { readonly code?: string }) =>
      !secure && ["ECONNRESET", "EPIPE"].includes(error.code ?? "") ? onClose() : fail(error);
    const stop = () => {
      clearTimeout(timer);
      socket.off("close", onClose).off("data", onData).off("error", onError);
      // Whatever becomes of it before it is used or destroyed must not end the process.
      socket.on("error", () => {});
    };
    const fail = (error: unknown) => {
      stop();
      reject(error);
    };
    const timer = startTimer(() => fail(new Error(`no answer within ${Math.round(limitMs)} ms.`)), limitMs);
    socket.on("close", onClose).on("data", onData).on("error", onError);
    socket.once(secure ? "secureConnect" : "connect", () => {
      sent = sendingNow();
      socket.write(connectFrame(handshake));
    });
  });
}
