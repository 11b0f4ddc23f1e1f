import { randomBytes } from "node:crypto";
import type { RedisSettings } from "../../clients/redis/options.js";
import type { CellStore } from "../../core/backend.js";
import type { TicketFloor } from "../../engine-kit/queue.js";
import { readCell, readVersion } from "./replies.js";

/** Runs the script on the key of that name, to change it with the id of the change. */
export type RunCell = <T>(
  name: string,
  args: readonly string[],
  read: (reply: unknown) => T,
  id?: string,
) => Promise<T>;

export function redisCells(
  run: RunCell,
  { timeoutMs, retentionMs }: RedisSettings,
  floor: TicketFloor,
): CellStore {
  const times = [String(Math.ceil(timeoutMs)), String(retentionMs)];
  return {
    read: (name) => run(name, [], readCell),
    async write(name, { text, ifVersion, keepMs }) {
      const expected = ifVersion === undefined ? "-1" : String(ifVersion ?? 0);
      const kept = keepMs === undefined ? "0" : String(Math.ceil(keepMs));
      const args = [expected, kept, ...times, String(floor.lowest())];
      const id = randomBytes(9).toString("base64url");
      const version = await run(name, text === undefined ? args : [...args, text], readVersion, id);
      if (version !== undefined) floor.observe(version);
      return version;
    },
  };
}
