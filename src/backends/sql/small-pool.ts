import { nowMs } from "../../core/clock.js";
import type { Lent, Order, Pool } from "./pool.js";

/** A connection that we open, and keep. */
export interface OwnConnection<Connection> {
  readonly connection: Connection;
  /** `lost` is called when it breaks, also while nobody uses it. */
  open(lost: () => void): Promise<void>;
  /** Says goodbye; one that is broken goes without. */
  close(broken: boolean): Promise<void>;
  /** Whether it keeps the program from ending. */
  ref(): void;
  unref(): void;
}

interface Kept<Connection> extends Lent<Connection> {
  readonly own: OwnConnection<Connection>;
  state: "opening" | "open" | "gone";
  idleSinceMs: number;
}

interface Waiting<Connection> {
  resolve(lent: Lent<Connection>): void;
  reject(error: unknown): void;
}

const IDLE_MS = 60_000;

const ignore = () => {};

/**
 * A few connections of our own. Like a library's pool, but a free connection is taken at once, since a lock is two
 * requests, and what a pool does around each of them is a good part of its price; and whoever gives up waiting is
 * forgotten.
 */
export class SmallPool<Connection> implements Pool<Connection> {
  readonly #make: () => OwnConnection<Connection>;
  readonly #most: number;
  readonly #closed: () => Error;
  readonly #idle: Kept<Connection>[] = [];
  readonly #waiting = new Set<Waiting<Connection>>();
  #count = 0;
  #ended = false;
  #tidying: NodeJS.Timeout | undefined;

  constructor(most: number, make: () => OwnConnection<Connection>, closed: () => Error) {
    this.#most = most;
    this.#make = make;
    this.#closed = closed;
  }

  take(): Lent<Connection> | undefined {
    const kept = this.#idle.pop();
    kept?.own.ref();
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
    else if (this.#count < this.#most) this.#open();
    return { coming, cancel };
  }

  /** Whoever is still at work ends it by giving the connection back; whoever waits for one is sent away. */
  async end(): Promise<void> {
    this.#ended = true;
    for (const { reject } of this.#waiting) reject(this.#closed());
    this.#waiting.clear();
    clearInterval(this.#tidying);
    await Promise.all(this.#idle.splice(0).map(({ own }) => own.close(false)));
  }

  #open(): void {
    this.#count++;
    const own = this.#make();
    const kept: Kept<Connection> = {
      own,
      connection: own.connection,
      state: "opening",
      idleSinceMs: 0,
      giveBack: (broken) => this.#giveBack(kept, broken),
    };
    // A connection that breaks while it is idle goes; whoever asks next need not know.
    const lost = () => {
      if (kept.state === "open") this.#drop(kept);
    };
    own.open(lost).then(
      () => {
        kept.state = "open";
        this.#giveBack(kept, false);
      },
      (error: unknown) => {
        // Before it is dropped, which opens another one only if somebody else still waits.
        this.#nextWaiting()?.reject(error);
        this.#discard(kept, true);
      },
    );
  }

  #giveBack(kept: Kept<Connection>, broken: boolean): void {
    if (kept.state === "gone") return;
    if (broken || this.#ended) {
      this.#discard(kept, broken);
      return;
    }
    const next = this.#nextWaiting();
    if (next !== undefined) {
      next.resolve(kept);
      return;
    }
    kept.idleSinceMs = nowMs();
    // A program that has finished must be able to exit.
    kept.own.unref();
    this.#idle.push(kept);
    this.#tidying ??= setInterval(() => this.#tidy(), IDLE_MS / 2).unref();
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
    if (this.#waiting.size > 0 && this.#count < this.#most) this.#open();
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
