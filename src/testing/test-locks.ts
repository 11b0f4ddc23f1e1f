import { memory } from "../backends/memory/index.js";
import type { Force } from "../core/backend.js";
import type { Grant } from "../core/claim-state.js";
import { moveClock, nowMs } from "../core/clock.js";
import type { Connection } from "../core/connection.js";
import { type Duration, durationMs } from "../core/duration.js";
import { invalidOption, type Loss } from "../core/errors.js";
import { canonicalName, type LockName } from "../core/names.js";
import { knownOptions } from "../core/options.js";
import { keepTimers, nextTimer, nextTurn } from "../core/timer.js";
import { createLocks, Locks } from "../locks/locks.js";
import { LOCKS_OPTIONS, type LocksOptions } from "../locks/locks-options.js";
import { breakable } from "./outage.js";

/** The clock of all locks in this process, whatever a test tool does to its timers. */
export interface TestClock {
  /** Lets so much time pass: leases are renewed and run out, and waits end, in the order in which they are due. */
  advance(time: Duration): Promise<void>;
}

/** What `createTestLocks` gives: locks, and what can happen to them. */
export interface TestLocks {
  /** Locks in memory, as `connect("memory:")` makes them. Close them when the test is over. */
  readonly locks: Locks;
  /** It moves for all locks of the process: let tests that use it run one after the other. */
  readonly clock: TestClock;
  /** The leases on that name run out now, as if they could not have been renewed; the next waiter gets in. */
  expire(name: LockName): Promise<void>;
  /** The leases on that name are lost for that reason; except for `"closed"`, the next waiter gets in. */
  lose(name: LockName, loss: Loss, told?: Partial<Force>): Promise<void>;
  /** The engine is away for so long, by `clock`: requests fail, and leases cannot be renewed. */
  outage(lasts: Duration): void;
}

const LOSSES: readonly string[] = [
  ...["expired", "taken", "forced", "paused", "session", "closed"],
] satisfies string[];

/** As many turns as what follows from a timer may need: an answer of the engine, and what its caller does then. */
const TURNS = 5;

/**
 * Locks for tests of your own code: what does it do when a lock is lost, or when the engine is away? Nothing has to
 * be waited for, since the test moves the clock.
 *
 * @example
 * ```ts
 * import { createTestLocks } from "locktender/testing";
 *
 * const { locks, lose } = createTestLocks();
 * const lease = await locks.mutex("nightly").acquire(); // or a call of your code
 * await lose("nightly", "expired");
 * console.log(lease.held, lease.signal.reason.loss); // false expired
 * await locks.close();
 * ```
 */
export function createTestLocks(options: LocksOptions = {}): TestLocks {
  knownOptions(options, LOCKS_OPTIONS, "createTestLocks");
  keepTimers();
  const { backend, outage } = breakable(memory());
  const locks = createLocks(backend, options);
  const connection = Locks.connectionOf(locks);
  const lose = async (name: LockName, loss: Loss, told: Partial<Force> = {}) => {
    if (!LOSSES.includes(loss)) throw invalidOption(`lose: the loss must be one of ${LOSSES.join(", ")}.`);
    for (const grant of grantsOf(connection, canonicalName(name))) await end(connection, grant, loss, told);
    await settle();
  };
  return {
    locks,
    clock: { advance: async (time) => advance(durationMs("advance", time)) },
    expire: (name) => lose(name, "expired"),
    lose,
    outage: (lasts) => outage(durationMs("outage", lasts)),
  };
}

function grantsOf(connection: Connection, name: string): readonly Grant[] {
  const grants = [...connection.grants].filter((grant) => grant.claim.name === name);
  if (grants.length > 0) return grants;
  throw invalidOption(`no lease on ${JSON.stringify(name)} is held here, so none can be lost.`, name);
}

/** As on a real engine: the holder is told first, and then the next waiter gets in. */
async function end(connection: Connection, grant: Grant, loss: Loss, told: Partial<Force>): Promise<void> {
  if (loss === "closed") return grant.close();
  grant.lose(loss, told);
  await connection.backend.release(grant.claim).catch(() => undefined);
}

async function advance(byMs: number): Promise<void> {
  const untilMs = nowMs() + byMs;
  await settle();
  for (let next = nextTimer(untilMs); next !== undefined; next = nextTimer(untilMs)) {
    moveClock(Math.max(0, next.dueMs - nowMs()));
    next.fire();
    await settle();
  }
  moveClock(Math.max(0, untilMs - nowMs()));
  await settle();
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await nextTurn();
}
