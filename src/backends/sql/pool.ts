import { nowMs } from "../../core/clock.js";
import { asError } from "../../core/errors.js";
import { startInterval, startTimer } from "../../core/timer.js";
import type { RequestTimeout } from "../../engine-kit/request-timeout.js";
import { closedError } from "./errors.js";

/** A connection that a request has for a while. Only the first call of `giveBack` or `abandon` counts. */
export interface Lent<Connection> {
  readonly connection: Connection;
  /** It lay idle until now: the server may have closed it long ago. */
  readonly wasIdle?: boolean;
  /** A broken one is not used again. */
  giveBack(broken: boolean): void;
  /**
   * The request on it took too long. The server is told to stop it, and the connection counts as taken until the
   * request has ended: with each retry on a new connection, a server that hangs would soon have none left.
   */
  abandon(ended: Promise<unknown>): void;
}

/** A connection that a request has asked for. */
export interface PendingConnection<Connection> {
  readonly connection: Promise<Lent<Connection>>;
  /** The request no longer wants a connection, and is given none. */
  cancel(): void;
}

/**
 * What to do after an attempt to stop a request at the server. `repeat`: try again later, if it still runs. `absent`: the
 * server does not have it any more, or there is no way to stop it. `unreachable`: give up.
 */
export type StopResult = "repeat" | "absent" | "unreachable";

/** A connection that the pool has opened. */
export interface PoolMember<Connection> {
  readonly connection: Connection;
  /** Closes it properly, or gives it back to the pool of the caller; a broken one is cut off. */
  close(broken: boolean): Promise<void>;
  /** Tells the server, by another way than this connection, to stop what runs on it; `attempt` counts from 1. */
  stop(attempt: number): Promise<StopResult>;
  /** As of a timer: with `ref` it keeps the program running, with `unref` it does not. */
  ref(): void;
  unref(): void;
}

/**
 * Opens a connection. `lost` is called when it breaks, also while no request uses it; `isWanted` says whether a request
 * still waits for one.
 */
export type Open<Connection> = (lost: () => void, isWanted: () => boolean) => Promise<PoolMember<Connection>>;

export interface PoolSettings {
  /** What the database is called in messages. */
  readonly engine: string;
  /** How many connections there may be. */
  readonly most: number;
  /** How long a request may take. */
  readonly timeoutMs: number;
  /** Set if the connections come from a pool of the caller's, and go back to it after each request: its size. */
  readonly callersPoolSize?: number;
}

interface Kept<Connection> extends Lent<Connection> {
  readonly own: PoolMember<Connection>;
  readonly generation: number;
  state: "open" | "abandoned" | "gone";
  idleSinceMs: number;
  wasIdle: boolean;
}

interface WaitingRequest<Connection> {
  resolve(lent: Lent<Connection>): void;
  reject(error: unknown): void;
}

const IDLE_MS = 60_000;
/** The first pause before the server is told again to stop a request. Each one is twice as long as the one before. */
const FIRST_REPEAT_MS = 100;

const ignore = () => {};

/**
 * A few connections, of our own or from a pool of the caller's. Like a library's pool, but a free connection is taken
 * at once, since a lock is two requests, and what a pool does around each of them is a good part of its price; a
 * request that gives up waiting is forgotten; and a connection whose request hangs counts until that has ended or
 * cannot be stopped, so a server that hangs is not given more and more of them.
 */
export class Pool<Connection> {
  readonly #settings: PoolSettings;
  readonly #connect: Open<Connection>;
  readonly #isBorrowed: boolean;
  readonly #idle: Kept<Connection>[] = [];
  readonly #waiting = new Set<WaitingRequest<Connection>>();
  #count = 0;
  /** How many connections are being opened; also for requests that have given up meanwhile. */
  #opening = 0;
  /** For how many of the requests that wait that is done: the others wait for one that is given back. */
  #openingForWaiting = 0;
  #generation = 0;
  #ended = false;
  #tidying: NodeJS.Timeout | undefined;

  constructor(settings: PoolSettings, connect: Open<Connection>) {
    this.#settings = settings;
    this.#connect = connect;
    this.#isBorrowed = settings.callersPoolSize !== undefined;
  }

  /**
   * How many old connections the caller's pool may still hand out after `replace`, each perhaps to a server that cannot
   * write. Those of our own are closed together, so there are none.
   */
  get oldConnectionsAtMost(): number {
    return this.#settings.callersPoolSize ?? 0;
  }

  /** One that is free right now: nearly always so, and the quickest way. */
  take(): Lent<Connection> | undefined {
    const kept = this.#idle.pop();
    if (kept === undefined) return undefined;
    kept.own.ref();
    kept.wasIdle = true;
    return kept;
  }

  /** Asks for a connection: a free one, a new one, or the next that is given back. */
  request(): PendingConnection<Connection> {
    if (this.#ended)
      return { connection: Promise.reject(closedError(this.#settings.engine)), cancel: ignore };
    const free = this.take();
    if (free !== undefined) return { connection: Promise.resolve(free), cancel: ignore };
    let cancel = ignore;
    const connection = new Promise<Lent<Connection>>((resolve, reject) => {
      const waiting = { resolve, reject };
      this.#waiting.add(waiting);
      cancel = () => this.#forget(waiting);
    });
    this.#openIfWanted();
    return { connection, cancel };
  }

  /** As `request`, but it fails with `late()` after the timeout. */
  lend(requestTimeout: RequestTimeout, late: () => Error): Promise<Lent<Connection>> {
    const { connection, cancel } = this.request();
    return requestTimeout.bound(connection, asError, () => {
      cancel();
      return late();
    });
  }

  /**
   * The server behind the connections of this moment cannot write: none of them is used for another request. Those that
   * lie idle in a pool of the caller's are found one after the other.
   */
  replace(): void {
    this.#generation++;
    for (const kept of [...this.#idle]) this.#discard(kept, false);
  }

  /** A connection in use is closed when its request gives it back; requests that wait for one fail. */
  async end(): Promise<void> {
    // A pool of the caller's is not ours to end.
    if (this.#isBorrowed) return;
    this.#ended = true;
    for (const { reject } of this.#waiting) reject(closedError(this.#settings.engine));
    this.#waiting.clear();
    this.#openingForWaiting = 0;
    clearInterval(this.#tidying);
    await Promise.all(this.#idle.splice(0).map(({ own }) => own.close(false)));
  }

  #openIfWanted(): void {
    if (this.#waiting.size <= this.#openingForWaiting || this.#count >= this.#settings.most) return;
    this.#count++;
    this.#opening++;
    this.#openingForWaiting++;
    let kept: Kept<Connection> | undefined;
    let isLost = false;
    const lost = () => {
      isLost = true;
      // One that breaks while it is idle goes; the next request need not know. One that was abandoned is no longer
      // at the server.
      if (kept !== undefined) this.#drop(kept);
    };
    const isWanted = () => this.#waiting.size > 0;
    this.#connect(lost, isWanted).then(
      (own) => {
        this.#opening--;
        kept = this.#kept(own);
        if (!isLost) return this.#handOut(kept);
        // The request that it was opened for has another one opened.
        this.#openingForWaiting = Math.min(this.#openingForWaiting, this.#opening);
        this.#discard(kept, true);
      },
      (error: unknown) => {
        this.#opening--;
        // Not if a connection is being opened for each request that waits: this one was for a request that has given up.
        // First, so that another one is opened only if a further request still waits.
        if (this.#waiting.size > this.#opening) this.#nextWaiting()?.reject(error);
        this.#count--;
        this.#openIfWanted();
      },
    );
  }

  #kept(own: PoolMember<Connection>): Kept<Connection> {
    const kept: Kept<Connection> = {
      own,
      connection: own.connection,
      generation: this.#generation,
      state: "open",
      idleSinceMs: 0,
      wasIdle: false,
      giveBack: (broken) => this.#giveBack(kept, broken),
      abandon: (ended) => this.#abandon(kept, ended),
    };
    return kept;
  }

  #giveBack(kept: Kept<Connection>, broken: boolean): void {
    if (kept.state !== "open") return;
    const isReplaced = kept.generation !== this.#generation;
    // One that leads to a server that cannot write must not go back to the caller's pool.
    if (this.#isBorrowed) this.#discard(kept, broken || isReplaced);
    else if (broken || isReplaced || this.#ended) this.#discard(kept, broken);
    else this.#handOut(kept);
  }

  #handOut(kept: Kept<Connection>): void {
    const next = this.#nextWaiting();
    if (next !== undefined) {
      kept.wasIdle = false;
      next.resolve(kept);
      return;
    }
    if (this.#ended || this.#isBorrowed) {
      this.#discard(kept, false);
      return;
    }
    kept.idleSinceMs = nowMs();
    this.#idle.push(kept);
    // A program that has finished must be able to exit.
    kept.own.unref();
    this.#tidying ??= startInterval(() => this.#tidy(), IDLE_MS / 2).unref();
  }

  /**
   * The server is told to stop the request, again and again, because a request may be where it cannot be stopped: until
   * it has ended, the server does not have it any more, or the server cannot be reached. The connection is not used
   * again even if its request ends well: what was told to stop it may still be under way.
   */
  #abandon(kept: Kept<Connection>, ended: Promise<unknown>): void {
    if (kept.state !== "open") return;
    kept.state = "abandoned";
    kept.own.unref();
    let over = false;
    const finish = (hasEnded: boolean) => {
      if (over) return;
      over = true;
      const drop = () => this.#drop(kept);
      kept.own.close(!hasEnded).then(drop, drop);
    };
    const tell = async (attempt: number): Promise<void> => {
      const answer = await kept.own.stop(attempt).catch((): StopResult => "unreachable");
      if (over) return;
      if (answer !== "repeat") return finish(false);
      const pauseMs = Math.min(FIRST_REPEAT_MS * 2 ** (attempt - 1), this.#settings.timeoutMs);
      startTimer(() => void (over || tell(attempt + 1)), pauseMs).unref();
    };
    void tell(1);
    const settled = () => finish(true);
    ended.then(settled, settled);
  }

  #nextWaiting(): WaitingRequest<Connection> | undefined {
    const [next] = this.#waiting;
    if (next !== undefined) this.#forget(next);
    return next;
  }

  #forget(waiting: WaitingRequest<Connection>): void {
    if (this.#waiting.delete(waiting) && this.#openingForWaiting > 0) this.#openingForWaiting--;
  }

  #drop(kept: Kept<Connection>): void {
    if (kept.state === "gone") return;
    kept.state = "gone";
    this.#count--;
    const at = this.#idle.indexOf(kept);
    if (at !== -1) this.#idle.splice(at, 1);
    this.#openIfWanted();
  }

  #discard(kept: Kept<Connection>, broken: boolean): void {
    kept.own.close(broken).catch(ignore);
    this.#drop(kept);
  }

  /** The connection that was used last is taken first, so those that are not needed grow old. */
  #tidy(): void {
    const old = this.#idle.filter(({ idleSinceMs }) => nowMs() - idleSinceMs > IDLE_MS);
    for (const kept of old) this.#discard(kept, false);
  }
}
