import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { isGranted, type Operation } from "#lib/testing/history.js";
import { describeHistory } from "#lib/testing/history-describe.js";
import { seededRandom } from "#lib/testing/history-records.js";
import { type HistoryPlan, recordHistory } from "#lib/testing/history-run.js";
import { countHistory, type FailoverCounts, type Found, findViolations, timesToReturn } from "./counts.js";
import { type Promised, report } from "./results.js";

export interface FailoverPlan {
  /** Which server, and its version. */
  readonly server: string;
  /** What is done to it, as the table of results says it. */
  readonly setup: string;
  readonly promised: Promised;
  readonly backend: HistoryPlan["backend"];
  readonly processes?: number;
  readonly failovers: number;
  /** What a failover needs beforehand, such as a new replica. The processes are at work meanwhile. */
  readonly prepare?: () => Promise<void>;
  /** Resolves when the new primary can be reached. */
  readonly failOver: (random: () => number) => Promise<void>;
  readonly ttlMs?: number;
  /** How long a lock is held at most: longer than a failover takes, or two holders could never meet. */
  readonly holdMs?: number;
  /** How many locks there are: some must be free when replication stops, or none could be granted twice. */
  readonly names?: number;
  /** Within this time after a failover each process must be granted a lock. */
  readonly backWithinMs?: number;
  /** What else this set-up has counted. */
  readonly also?: () => Readonly<Record<string, number>>;
}

const PROCESSES = 6;
const WORKERS_PER_PROCESS = 3;
const NAMES = 10;
const HOLD_MS = 1_000;
const TTL_MS = 3_000;
const BACK_WITHIN_MS = 15_000;
/** Undisturbed work before each failover, and after the last one. */
const QUIET_MS = 1_500;
const LOOK_EVERY_MS = 300;
const SEED_VARIABLE = "LOCKTENDER_FAILOVER_SEED";

/** Lets processes work while the servers fail over, counts what they saw, and expects what is promised. */
export async function expectThroughFailovers(plan: FailoverPlan): Promise<FailoverCounts> {
  const {
    processes = PROCESSES,
    ttlMs = TTL_MS,
    holdMs = HOLD_MS,
    names = NAMES,
    backWithinMs = BACK_WITHIN_MS,
  } = plan;
  const seed = Number(process.env[SEED_VARIABLE] ?? Math.floor(Math.random() * 1e6));
  const random = seededRandom(seed);
  const switchedAtNs: bigint[] = [];
  const { operations } = await recordHistory({
    backend: plan.backend,
    processes,
    workersPerProcess: WORKERS_PER_PROCESS,
    names: Array.from({ length: names }, (_, index) => `stock-${index}`),
    durationMs: 0,
    ttlMs,
    holdMs,
    seed,
    meanwhile: async (look) => {
      for (let round = 0; round < plan.failovers; round++) {
        await plan.prepare?.();
        await sleep(QUIET_MS);
        await plan.failOver(random);
        const atNs = process.hrtime.bigint();
        switchedAtNs.push(atNs);
        await untilBack(async () => (await look()).operations, { atNs, processes, withinMs: backWithinMs });
      }
      await sleep(QUIET_MS);
    },
  });
  const found = findViolations(operations);
  const counts = countHistory(operations, found, { switchedAtNs, processes, backWithinMs });
  const { server, setup, promised, also } = plan;
  report({ server, setup, promised, runs: 1, counts, also: also?.() ?? {} }, seed);
  const told = (violations: Found[keyof Found]) =>
    violations.map((violation) => describeHistory(operations, violation));
  const text = JSON.stringify(counts, undefined, 2);
  if (promised.overlaps === "none") expect(told(found.overlaps), "overlaps").toEqual([]);
  if (promised.tokenRegressions !== "possible")
    expect(told(found.tokenRegressions), "token regressions").toEqual([]);
  if (promised.leases === "kept") expect(counts.taken, `leases that the server forgot: ${text}`).toBe(0);
  expect(told(found.notTold), "holders not told").toEqual([]);
  expect(counts.notBack, `processes not back: ${text}`).toBe(0);
  expect(counts.unanswered, `requests without an answer: ${text}`).toBe(0);
  // Less would mean nothing.
  expect(counts.grants, text).toBeGreaterThan(10 * counts.failovers);
  return counts;
}

/** Until all processes have returned, or the time for it is over. */
async function untilBack(
  look: () => Promise<readonly Operation[]>,
  { atNs, processes, withinMs }: { atNs: bigint; processes: number; withinMs: number },
): Promise<void> {
  const deadlineMs = performance.now() + withinMs;
  while (performance.now() < deadlineMs) {
    const times = timesToReturn((await look()).filter(isGranted), atNs, processes);
    if (times.every(Number.isFinite)) return;
    await sleep(LOOK_EVERY_MS);
  }
}
