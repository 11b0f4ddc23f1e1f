import { createHash } from "node:crypto";
import { nowMs } from "../core/clock.js";
import type { Connection } from "../core/connection.js";
import { invalidOption, isLockError } from "../core/errors.js";
import type { Hold } from "../core/hold.js";
import { lookAt } from "../core/look.js";
import { type AcquireOptions, type Defaults, readOptions } from "../core/options.js";
import { resizedTo } from "../core/resizing.js";
import { cellsOf } from "./cell.js";
import { granted } from "./engine-lock.js";
import { forceBehind } from "./force-release.js";

export type ResizeOptions = Pick<AcquireOptions, "wait" | "signal">;

const LONGEST_NAME = 200;

/** How many permits there are: those that somebody uses, or those that were last set. */
export async function capacityInForce(connection: Connection, name: string): Promise<number> {
  const capacity = (await lookAt(connection, name, 1))?.capacity ?? (await storedPermits(connection, name));
  if (capacity !== undefined) return capacity;
  throw invalidOption(
    `nobody uses the semaphore "${name}", and nobody has set its size. Say how many permits there are, as in semaphore(name, 5), or resize it once.`,
    name,
  );
}

/**
 * Changes the number of permits. Whoever holds all of the old ones, and has set the new number, sends away those who
 * wait behind it, and leaves. If somebody has come in between with the old number, it does so again.
 */
export async function resizeTo(
  connection: Connection,
  name: string,
  permits: number,
  options: ResizeOptions,
  defaults: Defaults,
): Promise<void> {
  const read = readOptions({ name, weight: 1, capacity: 1 }, options, defaults);
  const untilMs = nowMs() + read.waitMs;
  for (let old: number | undefined; ; ) {
    old ??= (await lookAt(connection, name, 1))?.capacity ?? permits;
    const ask = { ...read, weight: old, capacity: old, waitMs: Math.max(1, untilMs - nowMs()) };
    const hold = await granted(connection, { ...ask, note: resizedTo(permits) }, undefined).catch(
      otherCapacity,
    );
    if (typeof hold === "number") {
      old = hold;
      continue;
    }
    if (hold === undefined) continue;
    await settle(connection, hold, permits, old);
    const inForce = (await lookAt(connection, name, 1))?.capacity ?? permits;
    if (inForce === permits) return;
    old = inForce;
  }
}

async function settle(connection: Connection, hold: Hold, permits: number, old: number): Promise<void> {
  try {
    await storePermits(connection, hold.name, permits);
    if (old !== permits)
      await forceBehind(connection, hold.name, hold.ticket, { reason: resizedTo(permits) });
  } finally {
    await hold.giveBack();
  }
}

/** Beside the semaphore, for those who come when nobody is there. */
function cellName(name: string): string {
  const short = Buffer.byteLength(name) <= LONGEST_NAME;
  return `${short ? name : createHash("sha256").update(name).digest("base64url")}:permits`;
}

async function storePermits(connection: Connection, name: string, permits: number): Promise<void> {
  await cellsOf(connection, name, "resize").write(cellName(name), { text: JSON.stringify({ permits }) });
}

async function storedPermits(connection: Connection, name: string): Promise<number | undefined> {
  const stored = await cellsOf(connection, name, "semaphore").read(cellName(name));
  const { permits } = (stored === undefined ? {} : JSON.parse(stored.text)) as { permits?: unknown };
  return typeof permits === "number" ? permits : undefined;
}

/** Somebody has come with another number of permits than we thought. */
function otherCapacity(error: unknown): number {
  if (isLockError(error, "capacity-mismatch")) return error.capacity;
  throw error;
}
