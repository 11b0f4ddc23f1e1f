import { createHash } from "node:crypto";
import type { Permits } from "../core/acquire-request.js";
import { WHOLE } from "../core/claim.js";
import { nowMs } from "../core/clock.js";
import type { Connection } from "../core/connection.js";
import { timeoutError } from "../core/diagnostics/timeout-error.js";
import { lookAt } from "../core/diagnostics/view.js";
import { invalidOption, isLockError, LockError } from "../core/errors.js";
import type { HeldClaim } from "../core/held-claim.js";
import { type AcquireOptions, type Defaults, knownOptions, readOptions } from "../core/options.js";
import { chainOf, permitsInChain, shownHolds } from "../core/reentrancy.js";
import { isPermits, notPermits, permitsOf } from "../core/resizing.js";
import { cellsOf } from "./cell.js";
import { acquireTraced } from "./engine-lock.js";
import { forceBehind } from "./force-release.js";
import { storedJson } from "./stored-json.js";

export type ResizeOptions = Pick<AcquireOptions, "wait" | "signal" | "within">;

const KNOWN = new Set<string>(["wait", "signal", "within"] satisfies (keyof ResizeOptions)[]);
const LONGEST_NAME = 200;

/** How many permits there are: those that are in use, or those that were last set. */
export async function permitsInForce(connection: Connection, name: string): Promise<Permits> {
  const record = await lookAt(connection, name, 1);
  if (record !== undefined) return permitsOf(record);
  const capacity = await storedPermits(connection, name);
  if (capacity !== undefined) return { capacity, changing: false };
  throw invalidOption(
    `the semaphore "${name}" is not in use, and its size was never set. Say how many permits there are, as in semaphore(name, 5), or resize it once.`,
    name,
  );
}

/**
 * Changes the number of permits. The caller holds all of the old ones, sets the new number, sends away the claims that
 * wait behind it, and leaves. If a claim with the old number has entered in between, it does so again.
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
  // With the new number, if there is no claim: else the engine says which one is in force.
  for (let old = permits, turn = 1; ; turn++) {
    const ask = {
      ...asked,
      weight: old,
      capacity: old,
      note,
      resize: permits,
      waitMs: Math.max(1, restMs()),
    };
    const heldClaim = await acquireTraced(connection, ask, shownHolds(outer, connection)).catch(
      otherCapacity,
    );
    if (typeof heldClaim === "number") old = heldClaim;
    else if (heldClaim !== undefined) {
      await settle(heldClaim, permits);
      old = (await lookAt(connection, name, 1))?.capacity ?? permits;
      if (old === permits) return;
    }
    if (old === WHOLE) throw notPermits(name);
    if (turn > 1 && restMs() <= 0) throw await timeoutError(connection, name, nowMs() - startMs);
  }
}

async function settle(heldClaim: HeldClaim, permits: number): Promise<void> {
  const { connection, name } = heldClaim;
  try {
    await storePermits(connection, name, permits);
    if (heldClaim.request.capacity !== permits) {
      await forceBehind(heldClaim, { reason: resizedTo(permits), resize: permits });
    }
  } finally {
    await heldClaim.giveBack();
  }
}

/** For people to read. Waiters of releases before read the number here, and not in `resize`. */
function resizedTo(permits: number): string {
  return `resized to ${permits} permits`;
}

/** Beside the semaphore, for claims that find it empty. No list of parts makes a name with such a `\`. */
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

/** Another number of permits is in force than we thought. */
function otherCapacity(error: unknown): number {
  if (isLockError(error, "capacity-mismatch")) return error.permits ?? WHOLE;
  throw error;
}

function ownPermits(name: string): LockError {
  return new LockError(
    "self-deadlock",
    `this call chain holds permits of "${name}", and resize waits until none is held: it would wait for itself. Give them back first, or say { within: null } if this work is independent.`,
    { name },
  );
}
