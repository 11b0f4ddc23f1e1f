import { randomBytes } from "node:crypto";
import type { CellChange, CellStore, StoredCell } from "../../core/cells.js";
import type { TicketFloor } from "../../core/ticket-floor.js";
import type { RedisSettings } from "./options.js";

/** Runs the script on the key of that name, to change it with the id of the change. */
export type RunCell = (name: string, args: readonly string[], id?: string) => Promise<unknown>;

export class RedisCells implements CellStore {
  readonly #run: RunCell;
  readonly #times: readonly string[];
  readonly #floor: TicketFloor;

  constructor(run: RunCell, { timeoutMs, retentionMs }: RedisSettings, floor: TicketFloor) {
    this.#run = run;
    this.#floor = floor;
    this.#times = [String(Math.ceil(timeoutMs)), String(retentionMs)];
  }

  async read(name: string): Promise<StoredCell | undefined> {
    const reply = (await this.#run(name, [])) as readonly string[];
    const [version, text] = reply;
    return version === undefined || text === undefined ? undefined : { version: BigInt(version), text };
  }

  async write(name: string, { text, ifVersion, keepMs }: CellChange): Promise<bigint | undefined> {
    const expected = ifVersion === undefined ? "-1" : String(ifVersion ?? 0);
    const kept = keepMs === undefined ? "0" : String(Math.ceil(keepMs));
    const args = [expected, kept, ...this.#times, String(this.#floor.lowest())];
    const id = randomBytes(9).toString("base64url");
    const reply = await this.#run(name, text === undefined ? args : [...args, text], id);
    if (reply === null) return undefined;
    const version = BigInt(String(reply));
    this.#floor.observe(version);
    return version;
  }
}
