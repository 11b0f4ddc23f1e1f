import { randomBytes } from "node:crypto";
import type { RedisSettings } from "../../clients/redis/options.js";
import type { CellChange, CellStore, StoredCell } from "../../core/backend.js";
import type { TicketFloor } from "../../engine-kit/ticket-floor.js";
import { readCell, readVersion } from "./replies.js";

/** Runs the script on the key of that name, to change it with the id of the change. */
export type RunCell = <T>(
  name: string,
  args: readonly string[],
  read: (reply: unknown) => T,
  id?: string,
) => Promise<T>;

export class RedisCells implements CellStore {
  readonly #run: RunCell;
  readonly #times: readonly string[];
  readonly #floor: TicketFloor;

  constructor(run: RunCell, { timeoutMs, retentionMs }: RedisSettings, floor: TicketFloor) {
    this.#run = run;
    this.#floor = floor;
    this.#times = [String(Math.ceil(timeoutMs)), String(retentionMs)];
  }

  read(name: string): Promise<StoredCell | undefined> {
    return this.#run(name, [], readCell);
  }

  async write(name: string, { text, ifVersion, keepMs }: CellChange): Promise<bigint | undefined> {
    const expected = ifVersion === undefined ? "-1" : String(ifVersion ?? 0);
    const kept = keepMs === undefined ? "0" : String(Math.ceil(keepMs));
    const args = [expected, kept, ...this.#times, String(this.#floor.lowest())];
    const id = randomBytes(9).toString("base64url");
    const version = await this.#run(name, text === undefined ? args : [...args, text], readVersion, id);
    if (version !== undefined) this.#floor.observe(version);
    return version;
  }
}
