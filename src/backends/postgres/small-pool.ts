import { nowMs } from "../../core/clock.js";
import type { PgClientLike, PgPooledClient } from "./client.js";
import { closedError } from "./errors.js";

/** A client of the library, with what it takes to keep it. */
export interface OwnClient extends PgClientLike {
  connect(): Promise<void>;
  end(): Promise<void>;
  ref(): void;
  unref(): void;
}

interface Kept extends PgPooledClient {
  readonly own: OwnClient;
  idleSinceMs: number;
  gone: boolean;
}

const IDLE_MS = 60_000;

/**
 * A few connections of our own. Like the library's pool, but a free connection is taken at once: a lock is two
 * requests, and what a pool does around each of them is a good part of its price.
 */
export class SmallPool {
  readonly #make: () => OwnClient;
  readonly #most: number;
  readonly #idle: Kept[] = [];
  readonly #waiting: { resolve(client: Kept): void; reject(error: unknown): void }[] = [];
  #count = 0;
  #ended = false;
  #tidying: NodeJS.Timeout | undefined;

  constructor(most: number, make: () => OwnClient) {
    this.#most = most;
    this.#make = make;
  }

  /** A connection that is free right now. */
  take(): PgPooledClient | undefined {
    const kept = this.#idle.pop();
    kept?.own.ref();
    return kept;
  }

  connect(): Promise<PgPooledClient> {
    if (this.#ended) return Promise.reject(closedError());
    const free = this.take();
    if (free !== undefined) return Promise.resolve(free);
    return new Promise<PgPooledClient>((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      if (this.#count < this.#most) this.#open();
    });
  }

  /** Whoever is still at work ends it by giving the connection back; whoever waits for one is sent away. */
  async end(): Promise<void> {
    this.#ended = true;
    for (const { reject } of this.#waiting.splice(0)) reject(closedError());
    clearInterval(this.#tidying);
    await Promise.all(this.#idle.splice(0).map(({ own }) => own.end()));
  }

  #open(): void {
    this.#count++;
    const own = this.#make();
    const kept: Kept = Object.assign(own, {
      own,
      idleSinceMs: 0,
      gone: false,
      release: (destroy = false) => this.#giveBack(kept, destroy),
    });
    // A connection that breaks while it is idle goes; whoever asks next need not know.
    own.on("error", () => this.#drop(kept));
    own.on("end", () => this.#drop(kept));
    own.connect().then(
      () => this.#giveBack(kept, false),
      (error: unknown) => {
        // Before it is dropped, which opens another one only if somebody else still waits.
        this.#waiting.shift()?.reject(error);
        this.#drop(kept);
      },
    );
  }

  #giveBack(kept: Kept, destroy: boolean): void {
    if (kept.gone) return;
    if (destroy || this.#ended) {
      this.#drop(kept);
      kept.own.end().catch(() => undefined);
      return;
    }
    const next = this.#waiting.shift();
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

  #drop(kept: Kept): void {
    if (kept.gone) return;
    kept.gone = true;
    this.#count--;
    const at = this.#idle.indexOf(kept);
    if (at !== -1) this.#idle.splice(at, 1);
    if (this.#waiting.length > 0 && this.#count < this.#most) this.#open();
  }

  /** The one that was used last stays in front, so those that are not needed grow old. */
  #tidy(): void {
    const old = this.#idle.filter(({ idleSinceMs }) => nowMs() - idleSinceMs > IDLE_MS);
    for (const kept of old) {
      this.#drop(kept);
      kept.own.end().catch(() => undefined);
    }
  }
}
