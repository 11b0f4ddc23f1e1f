import type { CellChange, CellStore, StoredCell } from "../../core/cells.js";

/** Runs the script on the key of that name. */
export type RunCell = (name: string, args: readonly string[]) => Promise<unknown>;

export class RedisCells implements CellStore {
  readonly #run: RunCell;

  constructor(run: RunCell) {
    this.#run = run;
  }

  async read(name: string): Promise<StoredCell | undefined> {
    const reply = (await this.#run(name, [])) as readonly string[];
    const [version, text] = reply;
    return version === undefined || text === undefined ? undefined : { version: BigInt(version), text };
  }

  async write(name: string, { text, ifVersion, keepMs }: CellChange): Promise<bigint | undefined> {
    const expected = ifVersion === undefined ? "-1" : String(ifVersion ?? 0);
    const args = [expected, keepMs === undefined ? "0" : String(Math.ceil(keepMs))];
    const reply = await this.#run(name, text === undefined ? args : [...args, text]);
    return reply === null ? undefined : BigInt(String(reply));
  }
}
