import { type FSWatcher, watch } from "node:fs";
import { nowMs } from "../../core/clock.js";
import { startTimer } from "../../core/timer.js";
import type { SqlNotifications } from "../sql/backend.js";
import type { Poller } from "../sql/poller.js";
import type { WaiterRegistry } from "../sql/waiter-registry.js";
import type { FileListener } from "./lock-file.js";

/** Hints come with every commit of every process: they are followed no more often than this. */
const HINT_GAP_MS = 0.2;
/** The log moves shortly before a commit can be seen, so after a hint comes a second look. */
const SECOND_LOOK_MS = 1;
/** For holders it looks less often: only when they have held for a while, and at this interval. */
const SETTLED_MS = 200;

/**
 * No process can notify another one, but the write-ahead log changes when a process writes: then this process looks.
 * That is never more than a hint: some systems tell late of a change, or not at all, and then the poller's timer, which
 * runs behind it, has to do.
 */
export class FileWatch implements SqlNotifications, FileListener {
  readonly channel = "";
  readonly #log: () => string | undefined;
  readonly #waiters: WaiterRegistry;
  readonly #poller: Poller;
  #watcher: FSWatcher | undefined;
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

  /** Claims may have waited since before the file was opened, and no other call tells us to listen for them. */
  opened(): void {
    this.#changed();
  }

  /** The file is not the one that it was: all claims have to ask again. */
  lost(): void {
    this.#stopListening();
    this.#waiters.tellAllBefore(nowMs());
  }

  async close(): Promise<void> {
    for (const timer of [this.#second, this.#settling]) clearTimeout(timer);
    this.#stopListening();
  }

  /** A claim has begun to wait or to hold. */
  #changed(): void {
    if (this.#waiters.waiting.size > 0) this.#listen();
    else if (this.#watcher === undefined) this.#settle();
  }

  #listen(): void {
    const log = this.#watcher === undefined ? this.#log() : undefined;
    if (log === undefined) return;
    try {
      const watcher = watch(log, { persistent: false }, (event) => {
        // Renamed or deleted: what is there now is another file.
        if (event === "rename") this.#stopListening();
        this.#hinted();
      });
      watcher.on("error", () => this.#stopListening());
      this.#watcher = watcher;
    } catch {
      // No watches left, or no such file: the timer has to do.
    }
  }

  #stopListening(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #hinted(): void {
    this.#hintedMs = nowMs();
    if (this.#waiters.waiting.size === 0) {
      // Only holders are left. Our own work moves the log too, so we do not listen to it all the time.
      this.#stopListening();
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

  /** As soon as a claim has been held for a while, listens for what other processes do to it. */
  #settle(): void {
    if (this.#settling !== undefined) return;
    this.#settling = startTimer(() => {
      this.#settling = undefined;
      if (this.#waiters.anyHeld(SETTLED_MS)) {
        this.#listen();
        this.#look();
      } else if (this.#waiters.anyHeld()) this.#settle();
    }, SETTLED_MS).unref();
  }
}
