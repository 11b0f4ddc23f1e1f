import type { CellChange, CellStore, StoredCell } from "../../core/backend.js";
import type { TicketFloor } from "../../engine-kit/ticket-floor.js";
import type { SqlConnection } from "./driver.js";
import { bitOf, textOf, ticketOf, us } from "./replies.js";
import { readCell, writeCell } from "./routines.generated.js";
import type { Sweeper } from "./sweeper.js";

export class SqlCells implements CellStore {
  readonly #connection: SqlConnection;
  readonly #sweeper: Sweeper;
  readonly #floor: TicketFloor;

  constructor(connection: SqlConnection, sweeper: Sweeper, floor: TicketFloor) {
    this.#connection = connection;
    this.#sweeper = sweeper;
    this.#floor = floor;
  }

  async read(name: string): Promise<StoredCell | undefined> {
    const [row] = await this.#connection.call(readCell, [name]);
    if (row === undefined) return undefined;
    return { version: ticketOf(row, "version"), text: textOf(row, "body") };
  }

  async write(name: string, { text, ifVersion, keepMs = 0 }: CellChange): Promise<bigint | undefined> {
    const expected = ifVersion === undefined ? -1n : (ifVersion ?? 0n);
    const deletes = text === undefined ? 1 : 0;
    const values = [name, expected, deletes, text ?? null, us(keepMs), this.#floor.lowest()];
    const [row] = await this.#connection.call(writeCell, values);
    this.#sweeper.used();
    const drawn = ticketOf(row, "drawn");
    this.#floor.observe(drawn);
    return bitOf(row, "written") ? drawn : undefined;
  }
}
