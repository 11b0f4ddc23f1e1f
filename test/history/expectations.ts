import { expect } from "vitest";
import { checkHistory, type HistoryPromise, isGranted } from "#lib/testing/history.js";
import { describeHistory } from "#lib/testing/history-describe.js";
import { type HistoryPlan, recordHistory } from "#lib/testing/history-run.js";
import type { WorkerBackend } from "#lib/testing/index.js";

type Pace = Pick<HistoryPlan, "durationMs" | "holdMs" | "ttlMs" | "faults">;

export const QUICK: Pace = {
  durationMs: 5_000,
  holdMs: 5,
  ttlMs: 150,
  faults: { killEveryMs: 700, stopEveryMs: 200 },
};

/** Where claims live by a session, which is never shorter than a second. */
export const BY_SESSIONS: Pace = {
  durationMs: 12_000,
  holdMs: 30,
  ttlMs: 1_000,
  faults: { killEveryMs: 2_500, stopEveryMs: 500 },
};

/**
 * While processes are killed and stopped on the way no promise is broken, and enough has happened for that
 * to mean something.
 */
export async function expectAllPromisesKept(
  backend: WorkerBackend,
  pace = QUICK,
  { queueing = true, except = [] }: { queueing?: boolean; except?: readonly HistoryPromise[] } = {},
): Promise<void> {
  const { operations, kills, stops } = await recordHistory({
    backend,
    processes: 4,
    workersPerProcess: 4,
    names: ["stock", "orders"],
    ...pace,
    otherBuild: process.env.LOCKTENDER_OTHER_DIST,
    seed: 7,
  });
  const violations = checkHistory(operations).filter(({ promise }) => !except.includes(promise));
  expect(violations.map((violation) => describeHistory(operations, violation))).toEqual([]);

  const grants = operations.filter(isGranted);
  const happened = {
    kills,
    stops,
    grants: grants.length,
    queued: operations.filter(({ queued }) => queued !== undefined).length,
    refused: operations.filter(({ outcome }) => outcome?.kind === "refused").length,
    timedOut: operations.filter(({ outcome }) => outcome?.kind === "timeout").length,
    aborted: operations.filter(({ outcome }) => outcome?.kind === "aborted").length,
    losses: grants.filter(({ outcome }) => outcome.end.kind === "lost").length,
    killedInTheMiddle: operations.filter(({ outcome }) => outcome === undefined).length,
  };
  const atLeast = {
    kills: 2,
    stops: 3,
    grants: 50,
    queued: queueing ? 50 : 0,
    refused: 5,
    timedOut: 5,
    aborted: 5,
    losses: 1,
    killedInTheMiddle: 2,
  } satisfies Record<keyof typeof happened, number>;
  const tooFew = Object.entries(atLeast).filter(
    ([what, count]) => happened[what as keyof typeof happened] < count,
  );
  expect(tooFew, JSON.stringify(happened)).toEqual([]);
}
