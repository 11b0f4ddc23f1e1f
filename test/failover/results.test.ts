import { expect, test } from "vitest";
import { added, type FailoverResult } from "./results.js";

const RESULT: FailoverResult = {
  server: "PostgreSQL 15.18",
  setup: "planned switchover",
  promised: { overlaps: "none" },
  runs: 1,
  counts: {
    failovers: 2,
    processes: 6,
    grants: 100,
    overlaps: 1,
    longestOverlapMs: 20,
    tokenRegressions: 0,
    lost: 3,
    taken: 1,
    notTold: 0,
    notBack: 0,
    backWithinMs: 15_000,
    slowestBackMs: 900,
    unanswered: 0,
    errors: { refused: 2 },
  },
  also: { connections: 12 },
};

test("what was seen of a set-up in several runs is added up, and the worst of it stays", () => {
  const again = {
    ...RESULT,
    counts: { ...RESULT.counts, longestOverlapMs: 30, slowestBackMs: 700, errors: { refused: 1, late: 4 } },
    also: { connections: 9 },
  };
  const [sum, ...others] = added([RESULT], again);
  expect(others).toEqual([]);
  expect(sum?.runs).toBe(2);
  expect(sum?.counts).toEqual({
    ...RESULT.counts,
    failovers: 4,
    grants: 200,
    overlaps: 2,
    longestOverlapMs: 30,
    lost: 6,
    taken: 2,
    errors: { refused: 3, late: 4 },
  });
  expect(sum?.also).toEqual({ connections: 12 });
});

test("another set-up, or another server, stands beside it", () => {
  const other = { ...RESULT, server: "PostgreSQL 18.0" };
  expect(added([RESULT], other)).toEqual([RESULT, other]);
});
