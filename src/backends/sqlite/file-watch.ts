import { nowMs } from "../../core/clock.js";
import { startTimer } from "../../core/timer.js";
import type { SqlNotifications } from "../sql/backend.js";
import type { Poller } from "../sql/poller.js";
import type { WaiterRegistry } from "../sql/waiter-registry.js";
import { FileHint } from "./file-hint.js";
import type { FileListener } from "./lock-file.js";

/** Hints come with every commit of anybody: they are followed no more often than this. */
const HINT_GAP_MS = 0.2;
/** The log moves shortly before a commit can be seen, so after a hint comes a second look. */
const SECOND_LOOK_MS = 1;
/** Holders are looked after more gently: only once they have held for a while, and this often. */
const SETTLED_MS = 200;

/**
 * No process can ring another one, but the write-ahead log moves when somebody writes: that is when we look.
 * Behind it runs the poller's timer.
 */
export class FileWatch implements SqlNotifications, FileListener {
  readonly channel = "";
  readonly #log: () => string | undefined;
  readonly #waiters: WaiterRegistry;
  readonly #poller: Poller;
  readonly #hint = new FileHint(() => this.#hinted());
  #lookedMs = -Infinity;
  #hintedMs = -Infinity;
  #second: NodeJS.Timeout | undefined;
  #settling: NodeJS.Timeout | undefined;

  constructor(log: () => string | undefined, waiters: WaiterRegistry, poller: Poller) {
    this.#log = log;
    this.#waiters = waiters;
    this.#poller = poller;
    waiters.onChange(() => this.#changed());
  }

  /** Those who wait may have been waiting before, and then nobody else tells us to listen. */
  opened(): void {
    this.#changed();
  }

  /** The file is not the one that it was: everybody has to ask again. */
  lost(): void {
    this.#hint.close();
    this.#waiters.tellAllBefore(nowMs());
  }

  async close(): Promise<void> {
    for (const timer of [this.#second, this.#settling]) clearTimeout(timer);
    this.#hint.close();
  }

  /** Somebody waits, or has begun to hold. */
  #changed(): void {
    if (this.#waiters.waiting.size > 0) this.#listen();
    else if (!this.#hint.isOpen) this.#settle();
  }

  #listen(): void {
    if (this.#hint.isOpen) return;
    const log = this.#log();
    if (log !== undefined) this.#hint.open(log);
  }

  #hinted(): void {
    this.#hintedMs = nowMs();
    if (this.#waiters.waiting.size === 0) {
      // Only holders are left. Our own work moves the log too, so we do not listen to it all the time.
      this.#hint.close();
      this.#settle();
      return;
    }
    if (this.#hintedMs - this.#lookedMs >= HINT_GAP_MS) this.#look();
    if (this.#second === undefined) this.#lookAgain();
  }

  #look(): void {
    this.#lookedMs = nowMs();
    this.#poller.look();
  }

  #lookAgain(): void {
    const sinceMs = nowMs();
    this.#second = startTimer(() => {
      this.#second = undefined;
      if (this.#waiters.waiting.size === 0) return;
      this.#look();
      if (this.#hintedMs > sinceMs) this.#lookAgain();
    }, SECOND_LOOK_MS).unref();
  }

  /** Once somebody has held for a while, listens for what others do to it. */
  #settle(): void {
    if (this.#settling !== undefined) return;
    this.#settling = startTimer(() => {
      this.#settling = undefined;
      if (this.#waiters.heldForMs(SETTLED_MS)) {
        this.#listen();
        this.#look();
      } else if (this.#waiters.anyHeld) this.#settle();
    }, SETTLED_MS).unref();
  }
}
