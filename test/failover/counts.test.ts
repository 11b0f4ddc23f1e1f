import { expect, test } from "vitest";
import type { Grant, Operation } from "#lib/testing/history.js";
import { countHistory, findViolations } from "./counts.js";

const MS = 1_000_000n;

interface Told {
  readonly process: number;
  readonly fromMs: number;
  readonly untilMs: number;
  readonly token: number;
  readonly end?: Grant["end"];
}

/** A grant of the one lock of these histories: asked for 1 ms before, and believed until the given moment. */
function granted(
  { process, fromMs, untilMs, token, end = { kind: "released" } }: Told,
  index: number,
): Operation {
  const believed = { fromNs: BigInt(fromMs) * MS, untilNs: BigInt(untilMs) * MS };
  return {
    id: `${process}.0#${index}`,
    worker: `${process}.0`,
    name: "stock",
    invokedAtNs: believed.fromNs - MS,
    limited: true,
    outcome: { kind: "granted", atNs: believed.fromNs, token: BigInt(token), believed, end },
  };
}

function count(grants: readonly Told[], switchedAtMs = 0) {
  const history = grants.map(granted);
  const failovers = { switchedAtNs: [BigInt(switchedAtMs) * MS], processes: 2, backWithinMs: 50 };
  return countHistory(history, findViolations(history), failovers);
}

test("holders that take turns are grants, and nothing else", () => {
  const counts = count([
    { process: 0, fromMs: 10, untilMs: 20, token: 1 },
    { process: 1, fromMs: 21, untilMs: 30, token: 2 },
  ]);
  expect(counts).toMatchObject({
    grants: 2,
    overlaps: 0,
    tokenRegressions: 0,
    lost: 0,
    notTold: 0,
    notBack: 0,
  });
});

test("an overlap is counted once for each grant, and the longest is told", () => {
  const counts = count([
    { process: 0, fromMs: 10, untilMs: 40, token: 1 },
    { process: 1, fromMs: 20, untilMs: 25, token: 2 },
    { process: 1, fromMs: 30, untilMs: 60, token: 3 },
  ]);
  expect(counts).toMatchObject({ overlaps: 2, longestOverlapMs: 10, tokenRegressions: 0 });
});

test("a token that is lower than one before it, or equal to it, is a regression", () => {
  const lower = [
    { process: 0, fromMs: 10, untilMs: 20, token: 9 },
    { process: 1, fromMs: 30, untilMs: 40, token: 5 },
    { process: 0, fromMs: 50, untilMs: 60, token: 6 },
    { process: 0, fromMs: 70, untilMs: 80, token: 10 },
  ];
  expect(count(lower).tokenRegressions).toBe(2);
  expect(count(lower.map((told) => ({ ...told, token: 7 }))).tokenRegressions).toBe(3);
});

test("a loss without a reason is one that the holder was not told of", () => {
  const atNs = 40n * MS;
  const counts = count([
    { process: 0, fromMs: 10, untilMs: 20, token: 1, end: { kind: "lost", atNs, loss: "taken" } },
    { process: 1, fromMs: 30, untilMs: 40, token: 2, end: { kind: "lost", atNs } },
  ]);
  expect(counts).toMatchObject({ lost: 2, taken: 1, notTold: 1 });
});

test("a process without a grant in time after the failover is not back", () => {
  const turns = [
    { process: 0, fromMs: 110, untilMs: 120, token: 1 },
    { process: 1, fromMs: 160, untilMs: 170, token: 2 },
  ];
  expect(count(turns, 100)).toMatchObject({ notBack: 1, slowestBackMs: 10 });
  expect(count(turns, 115)).toMatchObject({ notBack: 1, slowestBackMs: 45 });
  expect(count(turns, 105)).toMatchObject({ notBack: 1, slowestBackMs: 5 });
});
