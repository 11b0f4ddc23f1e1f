import { startTimer } from "../../core/timer.js";
import type { SqlConnection } from "./connection.js";
import { countOf, goneOf, type Row, textOf, ticketOf } from "./replies.js";
import { poll } from "./routines.generated.js";
import type { WaiterRegistry, Watched } from "./waiter-registry.js";

const SHORTEST_MS = 5;
const LONGEST_MS = 100;
const GROWTH = 1.3;
/** A holder only has to learn that an operator took its lock away: it is enough to look now and then. */
const HOLDERS_MS = 1_000;
const LONGEST_AFTER_ERROR_MS = 1_000;
const NAMES_PER_POLL = 500;
const MOST_PER_NAME = 64;

/**
 * Where the server cannot notify this process, the process looks: one statement for all its claims that wait, often
 * while the queues move, and seldom while they do not.
 */
export class Poller {
  readonly #connection: SqlConnection;
  readonly #waiters: WaiterRegistry;
  #enabled = false;
  #timer: NodeJS.Timeout | undefined;
  #dueInMs = Infinity;
  #looking = false;
  #again = false;
  #pauseMs = SHORTEST_MS;
  #from = 0;
  /** How many claims were ahead when a name was last looked at. */
  readonly #ahead = new Map<string, number>();
  /** About how many claims of a name it asks, where more than one was granted: readers and permits come in together. */
  readonly #perName = new Map<string, number>();

  constructor(connection: SqlConnection, waiters: WaiterRegistry) {
    this.#connection = connection;
    this.#waiters = waiters;
    waiters.onChange(() => this.#lookSoon());
  }

  /** Off while the server notifies this process. */
  set enabled(enabled: boolean) {
    if (this.#enabled === enabled) return;
    this.#enabled = enabled;
    if (enabled) this.#lookSoon();
    else this.#stop();
  }

  /** This process has released at a name: another claim of its own may be next there, or was the one that it took away. */
  released(name: string, isForced: boolean): void {
    if (this.#enabled && (isForced || this.#waiters.waiting.has(name))) this.look();
  }

  /** At once, and once more if it is just looking. */
  look(): void {
    if (this.#looking) this.#again = true;
    else void this.#look();
  }

  /** Something has moved, so it is worth looking soon. */
  #lookSoon(): void {
    this.#pauseMs = SHORTEST_MS;
    this.#schedule();
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#dueInMs = Infinity;
  }

  /** Not ref'd: a waiter keeps the process alive by itself. */
  #schedule(): void {
    if (!this.#enabled || this.#looking) return;
    const holders = this.#waiters.waiting.size === 0;
    if (holders && !this.#waiters.anyHeld()) return;
    const pauseMs = holders ? HOLDERS_MS : this.#pauseMs;
    if (this.#timer !== undefined && this.#dueInMs <= pauseMs) return;
    clearTimeout(this.#timer);
    this.#dueInMs = pauseMs;
    this.#timer = startTimer(() => {
      this.#timer = undefined;
      this.#dueInMs = Infinity;
      // A lock that is soon given back is not worth a look.
      if (this.#waiters.waiting.size > 0 || this.#waiters.anyHeld(HOLDERS_MS)) void this.#look();
      else this.#schedule();
    }, pauseMs).unref();
  }

  async #look(): Promise<void> {
    this.#stop();
    this.#looking = true;
    this.#again = false;
    try {
      const asked = this.#heads();
      const list = asked.map(({ name, ticket }) => ({ name, ticket: String(ticket) }));
      const rows = await this.#connection.call(poll, [JSON.stringify(list)]);
      const moved = this.#tellWaiters(asked, rows);
      this.#pauseMs = moved ? SHORTEST_MS : Math.min(this.#pauseMs * GROWTH, LONGEST_MS);
    } catch {
      // A waiter that asks by itself gets the error; a look is only a hint.
      this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_AFTER_ERROR_MS);
    }
    this.#looking = false;
    if (this.#again && this.#enabled) void this.#look();
    else this.#schedule();
  }

  /** Of the claims that wait at a name, the first that have not been told to ask; a bounded number of names in turn. */
  #heads(): readonly Watched[] {
    const heads: Watched[] = [];
    const groups = [...this.#waiters.waiting.values()];
    const from = this.#from < groups.length ? this.#from : 0;
    this.#from = from + NAMES_PER_POLL;
    for (const group of groups.slice(from, this.#from)) {
      const first: Watched[] = [];
      for (const watched of group) {
        if (watched.notified) continue;
        const most = this.#perName.get(watched.name) ?? 1;
        if (first.length === most && watched.ticket > (first[most - 1] as Watched).ticket) continue;
        const after = first.findIndex(({ ticket }) => watched.ticket < ticket);
        first.splice(after === -1 ? first.length : after, 0, watched);
        if (first.length > most) first.pop();
      }
      heads.push(...first);
    }
    return heads;
  }

  /** Tells the waiters that are let in, and says whether anything has moved since the last look. */
  #tellWaiters(asked: readonly Watched[], rows: readonly Row[]): boolean {
    const ahead = new Map<string, number>();
    for (const row of rows) {
      const ticket = ticketOf(row, "ticket");
      if (row.kind !== "forced") ahead.set(`${ticket} ${textOf(row, "name")}`, countOf(row, "ahead"));
      else this.#waiters.tellForced(textOf(row, "id"), ticket, goneOf(row));
    }
    let moved = false;
    const first = new Set<string>();
    for (const { name, ticket, id, state } of asked) {
      const number = ahead.get(`${ticket} ${name}`);
      if (number === undefined) continue;
      if (!first.has(name)) {
        first.add(name);
        moved ||= number !== this.#ahead.get(name);
        this.#ahead.set(name, number);
        this.#perName.set(name, Math.min((this.#perName.get(name) ?? 1) * 2, MOST_PER_NAME));
      }
      // A claim behind one that has to wait has to wait, too.
      if (number > 0) this.#perName.delete(name);
      if (number > 0 || state !== "waiting") continue;
      this.#waiters.tell(id);
      moved = true;
    }
    // Names that were not asked about this time are kept, or each would seem to have moved the next time.
    for (const name of this.#ahead.keys()) {
      if (this.#waiters.waiting.has(name)) continue;
      this.#ahead.delete(name);
      this.#perName.delete(name);
    }
    return moved;
  }
}
