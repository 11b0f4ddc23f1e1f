import type { CellChange, CellStore, StoredCell } from "../../core/cells.js";
import type { SqlLink } from "./link.js";
import { us } from "./renewals.js";
import { bigintOf, numberOf, textOf } from "./replies.js";
import { readCell, writeCell } from "./routines.js";
import type { Sweeper } from "./sweeper.js";

export class SqlCells implements CellStore {
  readonly #link: SqlLink;
  readonly #sweeper: Sweeper;

  constructor(link: SqlLink, sweeper: Sweeper) {
    this.#link = link;
    this.#sweeper = sweeper;
  }

  async read(name: string): Promise<StoredCell | undefined> {
    const [row] = await this.#link.call(readCell, [name]);
    if (row === undefined) return undefined;
    return { version: bigintOf(row, "version"), text: textOf(row, "body") };
  }

  async write(name: string, { text, ifVersion, keepMs = 0 }: CellChange): Promise<bigint | undefined> {
    const expected = ifVersion === undefined ? -1n : (ifVersion ?? 0n);
    const deletes = text === undefined ? 1 : 0;
    const values = [name, expected, deletes, text ?? null, us(keepMs)];
    const [row] = await this.#link.call(writeCell, values);
    this.#sweeper.used();
    return numberOf(row, "written") === 1 ? bigintOf(row, "drawn") : undefined;
  }
}
