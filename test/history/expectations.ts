import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { checkHistory, type HistoryPromise, isGranted } from "#lib/testing/history.js";
import { describeHistory } from "#lib/testing/history-describe.js";
import { type HistoryPlan, type RecordedHistory, recordHistory } from "#lib/testing/history-run.js";
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

/** How often each thing has to happen for a history without violations to mean something. */
const AT_LEAST = {
  grants: 50,
  handedOff: 20,
  queued: 50,
  refused: 5,
  timedOut: 5,
  aborted: 5,
  losses: 1,
  killedInTheMiddle: 2,
  kills: 2,
  stops: 3,
};

/** A busy machine may need longer than the pace says until all of that has happened. */
const LONGEST_MS = 35_000;

/** While processes are killed and stopped on the way no promise is broken. */
export async function expectAllPromisesKept(
  backend: WorkerBackend,
  pace = QUICK,
  {
    queueing = true,
    except = [],
    outage,
    workersPerProcess = 4,
    names = ["stock", "orders"],
  }: {
    readonly queueing?: boolean;
    readonly except?: readonly HistoryPromise[];
    /** The message of an error that a caller may get, because servers are away for longer than its ttl. */
    readonly outage?: RegExp;
    readonly workersPerProcess?: number;
    readonly names?: readonly string[];
  } = {},
): Promise<void> {
  const otherBuild = process.env.LOCKTENDER_OTHER_DIST;
  const queued = queueing ? AT_LEAST.queued : 0;
  // An older build may hand nothing off.
  const handedOff = otherBuild === undefined ? AT_LEAST.handedOff : AT_LEAST.handedOff / 4;
  const wanted = { ...AT_LEAST, queued, handedOff };
  const untilMs = performance.now() + LONGEST_MS;
  const history = await recordHistory({
    backend,
    processes: 4,
    workersPerProcess,
    names,
    ...pace,
    meanwhile: async (look) => {
      await sleep(pace.durationMs);
      while (performance.now() < untilMs && tooFew(await look(), wanted).length > 0) await sleep(250);
    },
    otherBuild,
    seed: 7,
  });
  const { operations } = history;
  const violations = checkHistory(operations).filter(
    ({ promise, message }) => !except.includes(promise) && outage?.test(message) !== true,
  );
  expect(violations.map((violation) => describeHistory(operations, violation))).toEqual([]);
  expect(tooFew(history, wanted)).toEqual([]);
}

/** What has not happened often enough, and how often it has. */
function tooFew({ operations, kills, stops }: RecordedHistory, wanted: typeof AT_LEAST): string[] {
  const ended = (kind: string) => operations.filter(({ outcome }) => outcome?.kind === kind).length;
  const grants = operations.filter(isGranted);
  const happened = {
    grants: grants.length,
    handedOff: grants.filter(({ outcome }) => outcome.token % 1024n !== 0n).length,
    queued: operations.filter(({ queued }) => queued !== undefined).length,
    refused: ended("refused"),
    timedOut: ended("timeout"),
    aborted: ended("aborted"),
    losses: grants.filter(({ outcome }) => outcome.end.kind === "lost").length,
    killedInTheMiddle: operations.filter(({ outcome }) => outcome === undefined).length,
    kills,
    stops,
  } satisfies typeof AT_LEAST;
  return Object.entries(happened)
    .filter(([what, count]) => count < wanted[what as keyof typeof AT_LEAST])
    .map(([what, count]) => `${what}: ${count}`);
}
