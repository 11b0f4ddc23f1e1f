import { nowMs } from "../../core/clock.js";
import { asError } from "../../core/shape.js";
import { startInterval } from "../../core/timer.js";
import { describeHosts, type Host } from "../../engine-kit/address.js";
import { RequestTimeout } from "../../engine-kit/request-timeout.js";
import { closedError, lateError, ReadOnlyServerError } from "./errors.js";
import { type Lent, lookAfter, type Order, type Pool, type Stop } from "./pool.js";

/** A connection that we have opened, and keep. */
export interface OwnConnection<Connection> {
  readonly connection: Connection;
  /** Closes it in order; a broken one is cut off. */
  close(broken: boolean): Promise<void>;
  /** Tells the server, by another way than this connection, to stop what runs on it; `attempt` counts from 1. */
  stop(attempt: number): Promise<Stop>;
  /** Whether it keeps the program from ending. */
  ref(): void;
  unref(): void;
}

/** Opens a connection. `lost` is called when it breaks, also while no request uses it. */
export type Open<Connection> = (lost: () => void) => Promise<OwnConnection<Connection>>;

interface Kept<Connection> extends Lent<Connection> {
  readonly own: OwnConnection<Connection>;
  readonly generation: number;
  state: "open" | "abandoned" | "gone";
  idleSinceMs: number;
  wasIdle: boolean;
}

interface Waiting<Connection> {
  resolve(lent: Lent<Connection>): void;
  reject(error: unknown): void;
}

const IDLE_MS = 60_000;

const ignore = () => {};

/**
 * A few connections of our own. Like a library's pool, but a free connection is taken at once, since a lock is two
 * requests, and what a pool does around each of them is a good part of its price; a request that gives up waiting
 * is forgotten; and a connection counts until the server has let go of it, so there are never more than `most`.
 */
export class SmallPool<Connection> implements Pool<Connection> {
  /** They are closed together. */
  readonly idleAtMost = 0;
  readonly #connect: Open<Connection>;
  readonly #most: number;
  readonly #timeoutMs: number;
  readonly #closed: () => Error;
  readonly #idle: Kept<Connection>[] = [];
  readonly #waiting = new Set<Waiting<Connection>>();
  #count = 0;
  #generation = 0;
  #ended = false;
  #tidying: NodeJS.Timeout | undefined;

  constructor(
    { most, timeoutMs }: { readonly most: number; readonly timeoutMs: number },
    connect: Open<Connection>,
    closed: () => Error,
  ) {
    this.#most = most;
    this.#timeoutMs = timeoutMs;
    this.#connect = connect;
    this.#closed = closed;
  }

  take(): Lent<Connection> | undefined {
    const kept = this.#idle.pop();
    if (kept === undefined) return undefined;
    kept.own.ref();
    kept.wasIdle = true;
    return kept;
  }

  order(): Order<Connection> {
    if (this.#ended) return { coming: Promise.reject(this.#closed()), cancel: ignore };
    let cancel = ignore;
    const coming = new Promise<Lent<Connection>>((resolve, reject) => {
      const waiting = { resolve, reject };
      this.#waiting.add(waiting);
      cancel = () => this.#waiting.delete(waiting);
    });
    const free = this.take();
    if (free !== undefined) free.giveBack(false);
    else this.#openIfWanted();
    return { coming, cancel };
  }

  replace(): void {
    this.#generation++;
    for (const kept of [...this.#idle]) this.#discard(kept, false);
  }

  /** A request that is still at work ends it by giving its connection back; one that waits for one is sent away. */
  async end(): Promise<void> {
    this.#ended = true;
    for (const { reject } of this.#waiting) reject(this.#closed());
    this.#waiting.clear();
    clearInterval(this.#tidying);
    await Promise.all(this.#idle.splice(0).map(({ own }) => own.close(false)));
  }

  #openIfWanted(): void {
    if (this.#waiting.size === 0 || this.#count >= this.#most) return;
    this.#count++;
    let kept: Kept<Connection> | undefined;
    let isLost = false;
    const lost = () => {
      isLost = true;
      // One that breaks while it is idle goes; the next request need not know. One that was abandoned is no longer
      // at the server.
      if (kept !== undefined) this.#drop(kept);
    };
    this.#connect(lost).then(
      (own) => {
        kept = this.#kept(own);
        if (isLost) this.#discard(kept, true);
        else this.#giveBack(kept, false);
      },
      (error: unknown) => {
        // First, so that another one is opened only if a further request still waits.
        this.#nextWaiting()?.reject(error);
        this.#count--;
        this.#openIfWanted();
      },
    );
  }

  #kept(own: OwnConnection<Connection>): Kept<Connection> {
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
    if (broken || this.#ended || kept.generation !== this.#generation) {
      this.#discard(kept, broken);
      return;
    }
    const next = this.#nextWaiting();
    if (next !== undefined) {
      next.resolve(kept);
      return;
    }
    kept.idleSinceMs = nowMs();
    this.#idle.push(kept);
    // A program that has finished must be able to exit.
    kept.own.unref();
    this.#tidying ??= startInterval(() => this.#tidy(), IDLE_MS / 2).unref();
  }

  /** It is not used again even if its request ends well: what was told to stop it may still be under way. */
  #abandon(kept: Kept<Connection>, ended: Promise<unknown>): void {
    if (kept.state !== "open") return;
    kept.state = "abandoned";
    kept.own.unref();
    const close = (hasEnded: boolean) => {
      const drop = () => this.#drop(kept);
      kept.own.close(!hasEnded).then(drop, drop);
    };
    lookAfter(ended, (attempt) => kept.own.stop(attempt), this.#timeoutMs, close);
  }

  #nextWaiting(): Waiting<Connection> | undefined {
    const [next] = this.#waiting;
    if (next !== undefined) this.#waiting.delete(next);
    return next;
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
    this.#drop(kept);
    kept.own.close(broken).catch(ignore);
  }

  /** The one that was used last stays in front, so those that are not needed grow old. */
  #tidy(): void {
    const old = this.#idle.filter(({ idleSinceMs }) => nowMs() - idleSinceMs > IDLE_MS);
    for (const kept of old) this.#discard(kept, false);
  }
}

/** Where connections of ours lead, and how many there may be. */
interface OwnPoolSettings {
  readonly engine: string;
  readonly hosts: readonly Host[];
  readonly most: number;
  readonly timeoutMs: number;
  readonly connectMs: number;
  /** What to tell the operator if the server says nothing to a new connection. */
  readonly silent?: string;
}

/** A connection that is being opened. It settles when the server has told whether it is read-only. */
export interface OpeningConnection<Connection> extends OwnConnection<Connection> {
  readonly isReadOnly: Promise<boolean>;
}

/**
 * Connections to the first host that lets us write. One that could write is tried first from then on. All hosts share
 * the time, so that one that is silent does not use it up.
 */
export function ownPool<Connection>(
  { engine, hosts, most, timeoutMs, connectMs, silent }: OwnPoolSettings,
  open: (host: Host, shareMs: number, lost: () => void) => OpeningConnection<Connection>,
): Pool<Connection> {
  const share = new RequestTimeout(Math.ceil(connectMs / hosts.length));
  const openAt = async (host: Host, lost: () => void) => {
    const where = describeHosts({ hosts: [host] });
    // Only a connection that could be opened can be lost.
    const state = { isOpen: false, isLost: false };
    const opening = open(host, share.timeoutMs, () => {
      state.isLost = true;
      if (state.isOpen) lost();
    });
    try {
      const late = () => lateError(engine, where, share.timeoutMs, silent);
      if (await share.bound(opening.isReadOnly, asError, late)) throw new ReadOnlyServerError(engine, where);
    } catch (error) {
      opening.close(true).catch(ignore);
      throw error;
    }
    state.isOpen = true;
    if (state.isLost) lost();
    return opening;
  };
  let first = 0;
  const openFirst = async (lost: () => void) => {
    let failure: unknown;
    for (let tried = 0; tried < hosts.length; tried++) {
      const at = (first + tried) % hosts.length;
      try {
        const opened = await openAt(hosts[at] as Host, lost);
        first = at;
        return opened;
      } catch (error) {
        // That one of them is a replica says more than that others are down.
        if (!(failure instanceof ReadOnlyServerError)) failure = error;
      }
    }
    throw failure;
  };
  return new SmallPool({ most, timeoutMs }, openFirst, () => closedError(engine));
}
