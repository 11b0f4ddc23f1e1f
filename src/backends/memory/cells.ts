import type { CellChange, CellStore, StoredCell } from "../../core/cells.js";
import { nowMs } from "../../core/clock.js";

/** The cells of one store. What is over is forgotten by whoever writes next: those that end first come first. */
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
    this.#forgetOne();
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

  /** Each write looks at one that was made long ago, and puts it to the end of the line if it is still needed. */
  #forgetOne(): void {
    const [oldest] = this.#cells;
    if (oldest === undefined) return;
    const [name, cell] = oldest;
    this.#cells.delete(name);
    if (cell.untilMs > nowMs()) this.#cells.set(name, cell);
  }
}
