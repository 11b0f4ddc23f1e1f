import type { CellChange, CellStore, StoredCell } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";

/** How many are looked at for each that is written: of those that are over, no more stay than there are others. */
const LOOKS_PER_WRITE = 2;

/** The cells of one store. What is over is forgotten by the next writers. */
export class MemoryCells implements CellStore {
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

  /** Looks at the cell that was not looked at for longest, and puts it to the end of the order if it is still needed. */
  #forgetOne(): void {
    const [oldest] = this.#cells;
    if (oldest === undefined) return;
    const [name, cell] = oldest;
    this.#cells.delete(name);
    if (cell.untilMs > nowMs()) this.#cells.set(name, cell);
  }
}
