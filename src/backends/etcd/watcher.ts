import { connect } from "node:http2";
import type { Duplex } from "node:stream";
import { startInterval, startTimer } from "../../core/timer.js";
import { Backoff } from "../../engine-kit/request-timeout.js";
import type { Method } from "./library.js";
import {
  EVENT_DELETE,
  type KeyValue,
  type Long,
  MOST_QUESTIONS,
  NO_PUTS,
  type WatchRequest,
  type WatchResponse,
} from "./messages.js";
import type { EtcdRpc } from "./rpc.js";

const FIRST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 1_000;
/** How later versions than 3.4 name a watch that they refuse. */
const NO_WATCH = "-1";
const FROM_NOW = 0;

export interface Watched {
  readonly key: Buffer;
  readonly range_end?: Buffer;
  /** Tell of what happened from this revision on, however long ago that is. */
  readonly from?: bigint;
  /** Or tell only when the key that was created then is not there any more. */
  readonly created?: Long;
  /** The server watches it; again after every break. */
  stands?(): void;
  /** `undefined`: look for yourself, because what happened is not known. */
  on(event: { readonly deleted: boolean; readonly kv: KeyValue } | undefined): void;
}

/** `from`: the revision that it has reached. */
type Standing = Omit<Watched, "from"> & { from: bigint | undefined };

/**
 * All watches of one connection on one stream. When it breaks, they go on at the revision they had reached, or look.
 *
 * Servers tell of what happened before a watch stands every 100 ms only, and as long as that lasts, also of what
 * happens then. A lock must not be idle for so long: so a waiter watches for a deletion from now on, and what may
 * have been deleted before is looked up as soon as the watch stands.
 */
export class Watcher {
  readonly #rpc: EtcdRpc;
  readonly #standing = new Map<Long, Standing>();
  /** They stand, and what they watch was not looked at yet. */
  readonly #unseen = new Map<Long, Standing>();
  #looking = false;
  #stream: WatchStream | undefined;
  #opening = false;
  #lastId = 0;
  readonly #backoff = new Backoff(FIRST_RETRY_MS, LONGEST_RETRY_MS);
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(rpc: EtcdRpc) {
    this.#rpc = rpc;
  }

  watch(watched: Watched): () => void {
    const id = String(++this.#lastId);
    const standing: Standing = { from: undefined, ...watched };
    this.#standing.set(id, standing);
    if (this.#stream !== undefined) this.#create(this.#stream, id, standing);
    else void this.#open();
    return () => {
      if (this.#standing.delete(id)) this.#stream?.write({ cancel_request: { watch_id: id } });
    };
  }

  /** The server of before may be silent for ever: go on at the one that is asked now. */
  renew(): void {
    this.#stream?.cancel();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#standing.clear();
    this.#unseen.clear();
    this.#stream?.cancel();
  }

  #create(stream: WatchStream, id: Long, { key, range_end, from }: Standing): void {
    stream.write({
      create_request: {
        key,
        ...(range_end === undefined ? undefined : { range_end }),
        start_revision: String(from ?? FROM_NOW),
        filters: from === undefined ? [NO_PUTS] : [],
        watch_id: id,
      },
    });
  }

  async #open(): Promise<void> {
    if (this.#opening || this.#closed) return;
    this.#opening = true;
    clearTimeout(this.#retry);
    try {
      const { stream, broke, refused } = await this.#rpc.openWatch();
      this.#stream = stream;
      stream.listen({
        heard: (answer) => {
          if (this.#hear(answer)) return;
          // This user may not read there, or its token has become old: with a new one, and not at once.
          refused();
          stream.cancel();
        },
        broke: () => {
          if (this.#stream !== stream) return;
          broke();
          this.#stream = undefined;
          this.#later();
        },
      });
      if (this.#closed) stream.cancel();
      for (const [id, standing] of this.#standing) this.#create(stream, id, standing);
    } catch {
      this.#later();
    } finally {
      this.#opening = false;
    }
  }

  #later(): void {
    if (this.#closed || this.#standing.size === 0) return;
    const delayMs = this.#backoff.failedMs();
    this.#retry = startTimer(() => void this.#open(), delayMs).unref();
  }

  /** `false`: the stream has to be opened anew. */
  #hear({ watch_id, created, canceled, compact_revision, events }: WatchResponse): boolean {
    const standing = this.#standing.get(watch_id);
    if (standing === undefined) return !(canceled && watch_id === NO_WATCH);
    if (canceled && compact_revision !== "0") {
      // What it missed was compacted away: it has to look for itself.
      this.#standing.delete(watch_id);
      standing.on(undefined);
      return true;
    }
    if (canceled) return false;
    this.#backoff.reset();
    if (created) standing.stands?.();
    if (created && standing.from === undefined) {
      this.#unseen.set(watch_id, standing);
      void this.#look();
    }
    for (const { type, kv } of events) {
      // An event of no key is none of etcd's: a new stream goes on where this one stood.
      if (kv === null) return false;
      if (standing.from !== undefined) standing.from = BigInt(kv.mod_revision) + 1n;
      standing.on({ deleted: type === EVENT_DELETE, kv });
    }
    return true;
  }

  /** Whether the keys are still there whose watches stand since the last look; many in one request. */
  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    while (this.#unseen.size > 0) {
      const some = [...this.#unseen].slice(0, MOST_QUESTIONS);
      for (const [id] of some) this.#unseen.delete(id);
      const success = some.map(([, { key }]) => ({ request_range: { key, keys_only: true } }));
      const seen = await this.#rpc.txn({ success }).catch(() => undefined);
      for (const [index, [id, standing]] of some.entries()) {
        const [found] = seen?.responses[index]?.response_range?.kvs ?? [];
        if (found?.create_revision !== standing.created && this.#standing.get(id) === standing)
          standing.on(undefined);
      }
    }
    this.#looking = false;
  }
}

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

interface WatchEvents {
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
