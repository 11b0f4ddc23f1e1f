import type { CellChange, CellStore, Gone, Notify, StoredCell } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import type { Queue } from "../../engine-kit/queue.js";

/** How many are looked at for each that is written: of those that are over, no more stay than there are others. */
const LOOKS_PER_WRITE = 2;

/** The cells of one store. A write forgets some of those that are over. */
class MemoryCells implements CellStore {
  readonly #cells = new Map<string, StoredCell & { readonly untilMs: number }>();
  readonly #nextVersion: () => bigint;

  constructor(nextVersion: () => bigint) {
    this.#nextVersion = nextVersion;
  }

  async read(name: string): Promise<StoredCell | undefined> {
    return this.#live(name);
  }

  async write(name: string, { text, ifVersion, keepMs }: CellChange): Promise<bigint | undefined> {
    for (let looks = 0; looks < LOOKS_PER_WRITE; looks++) this.#forgetOne();
    const found = this.#live(name)?.version ?? null;
    if (ifVersion !== undefined && ifVersion !== found) return undefined;
    const version = this.#nextVersion();
    this.#cells.delete(name);
    if (text !== undefined) this.#cells.set(name, { text, version, untilMs: nowMs() + (keepMs ?? Infinity) });
    return version;
  }

  #live(name: string): StoredCell | undefined {
    const cell = this.#cells.get(name);
    return cell === undefined || cell.untilMs <= nowMs() ? undefined : cell;
  }

  /** Looks at the cell whose last look is the longest ago, and puts it to the end of them if it is needed. */
  #forgetOne(): void {
    const [oldest] = this.#cells;
    if (oldest === undefined) return;
    const [name, cell] = oldest;
    this.#cells.delete(name);
    if (cell.untilMs > nowMs()) this.#cells.set(name, cell);
  }
}

/** What all memory backends of one name share. */
export class MemoryStore {
  readonly queues = new Map<string, Queue>();
  readonly watchers = new Map<string, Notify>();
  readonly forced = new Map<string, { readonly gone: Gone; readonly untilMs: number }>();
  readonly cells = new MemoryCells(() => this.nextTicket());
  #lastTicket = 0n;

  /** Never lower than the wall clock, so tokens keep growing when a process starts anew. */
  nextTicket(): bigint {
    const floor = BigInt(Date.now()) * 1000n;
    this.#lastTicket += 1n;
    if (this.#lastTicket < floor) this.#lastTicket = floor;
    return this.#lastTicket;
  }
}

/** Those with a name. */
export const stores = new Map<string, MemoryStore>();
