import type { Answer, Gone, News, Renewal, Ring, Unwatch } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { forcedNews, linesOf } from "./claims.js";
import { FileHint } from "./file-hint.js";
import type { LockFile } from "./lock-file.js";
import type { LineRow, Statements } from "./statements.js";

const SHORTEST_POLL_MS = 5;
const LONGEST_POLL_MS = 50;
/** Hints come with every commit of anybody: they are followed no more often than this. */
const HINT_GAP_MS = 0.2;
/** The log moves shortly before a commit can be seen, so after a hint comes a second look. */
const SECOND_LOOK_MS = 1;
/** Holders are looked after more gently: only once they have held for a while, and this often. */
const SETTLED_MS = 200;

type State = "asking" | "waiting" | "held";

interface Watched {
  readonly name: string;
  readonly id: string;
  readonly ring: Ring;
  ticket: number;
  state: State;
  sinceMs: number;
  /** It has been told to ask, and has not asked yet. */
  rung: boolean;
  /** The end of a released claim's minHold that it was last told to ask about. */
  leftUntil: number | null;
}

type ClaimKey = { readonly name: string; readonly id: string };

/**
 * No process can ring another one, so each looks by itself: when the write-ahead log moves, and on a timer
 * behind that. Only while one of its claims waits; then one look costs one small query for all of them.
 */
export class Bell {
  readonly #file: LockFile;
  readonly #hint = new FileHint(() => this.#hinted());
  readonly #watched = new Map<string, Watched>();
  /** The claims that wait, by name. */
  readonly #waiting = new Map<string, Set<Watched>>();
  #poll: NodeJS.Timeout | undefined;
  #pollMs = SHORTEST_POLL_MS;
  #second: NodeJS.Timeout | undefined;
  #settling: NodeJS.Timeout | undefined;
  #lookedMs = -Infinity;
  #hintedMs = -Infinity;
  #waitedMs = -Infinity;
  /** Tells whether another connection has written since the last look. */
  #dataVersion: number | undefined;
  #lastForced = 0;

  constructor(file: LockFile) {
    this.#file = file;
  }

  watch({ name, id }: ClaimKey, ring: Ring): Unwatch {
    const key = keyOf(name, id);
    const watched: Watched = {
      name,
      id,
      ring,
      ticket: 0,
      state: "asking",
      sinceMs: 0,
      rung: false,
      leftUntil: null,
    };
    this.#forget(this.#watched.get(key));
    this.#watched.set(key, watched);
    return () => {
      this.#forget(watched);
      if (this.#watched.get(key) === watched) this.#watched.delete(key);
    };
  }

  /** What the engine has just said about a claim: who waits is looked after from here on. */
  answered({ name, id }: ClaimKey, answer: Answer | Renewal, ticket: bigint | undefined): void {
    const watched = this.#watched.get(keyOf(name, id));
    if (watched === undefined) return;
    watched.rung = false;
    if (ticket !== undefined) watched.ticket = Number(ticket);
    if (answer.state === "waiting") {
      this.#awaits(watched);
      return;
    }
    this.#forget(watched);
    if (answer.state !== "granted" && answer.state !== "held") return;
    if (watched.state !== "held") watched.sinceMs = nowMs();
    watched.state = "held";
    if (!this.#hint.isOpen) this.#settle();
  }

  /** This process has removed claims, so others at these names may have been let in. */
  removed(names: Iterable<string>): void {
    const waited = [...names].filter((name) => this.#waiting.has(name));
    if (waited.length === 0) return;
    const lines = this.#file.peek((session) => session.read((db, nowUs) => linesOf(db, waited, nowUs)));
    // What could not be seen now is looked at by the timer.
    if (lines === undefined) this.#dataVersion = undefined;
    else this.#ringAdmitted(lines);
  }

  removedAnywhere(): void {
    this.removed(this.#waiting.keys());
  }

  /** A claim was taken away by this very process. */
  forced({ name, id }: ClaimKey, ticket: number, gone: Gone): void {
    const watched = this.#watched.get(keyOf(name, id));
    if (watched !== undefined) this.#ring(watched, { ...gone, ticket: BigInt(ticket) });
  }

  /** The file is not the one that it was: everybody has to ask again. */
  lost(): void {
    this.#hint.close();
    this.#dataVersion = undefined;
    this.#lastForced = 0;
    for (const waiters of this.#waiting.values()) for (const watched of waiters) this.#ring(watched);
  }

  close(): void {
    for (const timer of [this.#poll, this.#second, this.#settling]) clearTimeout(timer);
    this.#hint.close();
    this.#watched.clear();
    this.#waiting.clear();
  }

  #awaits(watched: Watched): void {
    watched.state = "waiting";
    const waiters = this.#waiting.get(watched.name);
    if (waiters === undefined) this.#waiting.set(watched.name, new Set([watched]));
    else waiters.add(watched);
    this.#openHint();
    if (this.#poll !== undefined) return;
    // What others wrote between the answer and the first look must not be missed.
    this.#dataVersion = undefined;
    this.#pollMs = SHORTEST_POLL_MS;
    this.#schedulePoll();
  }

  #forget(watched: Watched | undefined): void {
    if (watched?.state !== "waiting") return;
    watched.state = "asking";
    this.#waitedMs = nowMs();
    const waiters = this.#waiting.get(watched.name);
    waiters?.delete(watched);
    if (waiters?.size === 0) this.#waiting.delete(watched.name);
  }

  /** Not ref'd: a waiter keeps the process alive by itself. */
  #schedulePoll(): void {
    this.#poll = setTimeout(() => {
      this.#poll = undefined;
      if (this.#waiting.size === 0) return;
      const moved = this.#look();
      this.#pollMs = moved ? SHORTEST_POLL_MS : Math.min(this.#pollMs * 1.5, LONGEST_POLL_MS);
      this.#schedulePoll();
    }, this.#pollMs).unref();
  }

  #hinted(): void {
    this.#hintedMs = nowMs();
    if (this.#waiting.size === 0) {
      // Only holders are left. Our own work moves the log too, so we do not listen to it all the time.
      if (this.#hintedMs - this.#waitedMs > SETTLED_MS) this.#hint.close();
      this.#settle();
      return;
    }
    if (this.#hintedMs - this.#lookedMs >= HINT_GAP_MS) this.#look();
    if (this.#second === undefined) this.#lookAgain();
  }

  #lookAgain(): void {
    const sinceMs = nowMs();
    this.#second = setTimeout(() => {
      this.#second = undefined;
      if (this.#waiting.size === 0) return;
      this.#look();
      if (this.#hintedMs > sinceMs) this.#lookAgain();
    }, SECOND_LOOK_MS).unref();
  }

  /** Once somebody has held for a while, listens for what others do to it. */
  #settle(): void {
    if (this.#settling !== undefined) return;
    this.#settling = setTimeout(() => {
      this.#settling = undefined;
      const atMs = nowMs();
      const holders = [...this.#watched.values()].filter(({ state }) => state === "held");
      if (holders.some(({ sinceMs }) => atMs - sinceMs >= SETTLED_MS)) {
        this.#openHint();
        this.#look();
      } else if (holders.length > 0) this.#settle();
    }, SETTLED_MS).unref();
  }

  #openHint(): void {
    if (this.#hint.isOpen) return;
    const file = this.#file.peek((session) => session.file);
    if (file !== undefined) this.#hint.open(`${file}-wal`);
  }

  /** Whether others have written since the last look; if so, tells whom it concerns. */
  #look(): boolean {
    this.#lookedMs = nowMs();
    const seen = this.#file.peek((session) => session.read((db, nowUs) => this.#news(db, nowUs)));
    if (seen === undefined) return false;
    for (const { seq, id, name, ticket, reason, by_whom } of seen.forced) {
      this.#lastForced = seq;
      this.forced({ name, id }, ticket, forcedNews(reason, by_whom));
    }
    this.#ringAdmitted(seen.lines);
    return true;
  }

  #news(db: Statements, nowUs: number) {
    const { data_version } = db.dataVersion.get();
    if (data_version === this.#dataVersion) return undefined;
    const lines = linesOf(db, [...this.#waiting.keys()], nowUs);
    const forced = db.news.all({ seq: this.#lastForced });
    // Remembered last: what fails half-way is looked at again.
    this.#dataVersion = data_version;
    return { lines, forced };
  }

  #ringAdmitted(lines: ReadonlyMap<string, LineRow>): void {
    for (const [name, { first_waiting: first, left_until: leftUntil }] of lines) {
      for (const watched of this.#waiting.get(name) ?? []) {
        const waits = first !== null && watched.ticket >= first;
        // Who is next learns by asking that the wait will be shorter than it was told.
        const sooner = watched.ticket === first && leftUntil !== null && leftUntil !== watched.leftUntil;
        if (watched.rung || (waits && !sooner)) continue;
        watched.leftUntil = leftUntil;
        watched.rung = true;
        this.#ring(watched);
      }
    }
  }

  #ring(watched: Watched, news?: News): void {
    queueMicrotask(() => {
      if (this.#watched.get(keyOf(watched.name, watched.id)) === watched) watched.ring(news);
    });
  }
}

function keyOf(name: string, id: string): string {
  return `${name}\n${id}`;
}
