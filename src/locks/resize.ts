import { createHash } from "node:crypto";
import { WHOLE } from "../core/claim.js";
import { nowMs } from "../core/clock.js";
import type { Connection } from "../core/connection.js";
import { invalidOption, isLockError, LockError } from "../core/errors.js";
import type { Hold } from "../core/hold.js";
import { lookAt } from "../core/look.js";
import { type AcquireOptions, type Defaults, knownOptions, readOptions } from "../core/options.js";
import { chainOf, permitsInChain, shownHolds } from "../core/reentry.js";
import { isPermits, notPermits, type Permits, permitsOf, resizedTo } from "../core/resizing.js";
import { timeoutError } from "../core/timeout.js";
import { cellsOf } from "./cell.js";
import { granted } from "./engine-lock.js";
import { forceBehind } from "./force-release.js";
import { storedJson } from "./stored-json.js";

export type ResizeOptions = Pick<AcquireOptions, "wait" | "signal" | "within">;

const KNOWN = new Set<string>(["wait", "signal", "within"] satisfies (keyof ResizeOptions)[]);
const LONGEST_NAME = 200;

/** How many permits there are: those that somebody uses, or those that were last set. */
export async function permitsInForce(connection: Connection, name: string): Promise<Permits> {
  const record = await lookAt(connection, name, 1);
  if (record !== undefined) return permitsOf(record);
  const capacity = await storedPermits(connection, name);
  if (capacity !== undefined) return { capacity, changing: false };
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
  knownOptions(options, KNOWN, `resize of "${name}"`);
  const { waitMs, ...asked } = readOptions(
    { name, kind: "semaphore", weight: 1, capacity: 1 },
    options,
    defaults,
  );
  const outer = chainOf(options.within);
  if (permitsInChain(outer, connection, name) > 0) throw ownPermits(name);
  const note = resizedTo(permits);
  const startMs = nowMs();
  const restMs = () => startMs + waitMs - nowMs();
  // With the new number, if nobody is there: else the engine says which one is in force.
  for (let old = permits, turn = 1; ; turn++) {
    const ask = { ...asked, weight: old, capacity: old, note, waitMs: Math.max(1, restMs()) };
    const hold = await granted(connection, ask, shownHolds(outer, connection)).catch(otherCapacity);
    if (typeof hold === "number") old = hold;
    else if (hold !== undefined) {
      await settle(hold, permits);
      old = (await lookAt(connection, name, 1))?.capacity ?? permits;
      if (old === permits) return;
    }
    if (old === WHOLE) throw notPermits(name);
    if (turn > 1 && restMs() <= 0) throw await timeoutError(connection, name, nowMs() - startMs);
  }
}

async function settle(hold: Hold, permits: number): Promise<void> {
  const { connection, name } = hold;
  try {
    await storePermits(connection, name, permits);
    if (hold.ask.capacity !== permits) await forceBehind(hold, { reason: resizedTo(permits) });
  } finally {
    await hold.giveBack();
  }
}

/** Beside the semaphore, for those who come when nobody is there. No list of parts makes a name with such a `\`. */
function cellName(name: string): string {
  const short = Buffer.byteLength(name) <= LONGEST_NAME;
  return `${short ? name : createHash("sha256").update(name).digest("base64url")}:\\permits`;
}

async function storePermits(connection: Connection, name: string, permits: number): Promise<void> {
  await cellsOf(connection, name, "resize").write(cellName(name), { text: JSON.stringify({ permits }) });
}

async function storedPermits(connection: Connection, name: string): Promise<number | undefined> {
  const stored = await cellsOf(connection, name, "semaphore").read(cellName(name));
  const { permits } = (storedJson(stored?.text ?? "null", name) ?? {}) as { permits?: unknown };
  return isPermits(permits) ? permits : undefined;
}

/** Somebody has come with another number of permits than we thought. */
function otherCapacity(error: unknown): number {
  if (isLockError(error, "capacity-mismatch")) return error.permits ?? WHOLE;
  throw error;
}

function ownPermits(name: string): LockError {
  return new LockError(
    "self-deadlock",
    `this call chain holds permits of "${name}", and resize waits until nobody does: it would wait for itself. Give them back first, or say { within: null } if this work is independent.`,
    { name },
  );
}
