import { appendFileSync, readFileSync } from "node:fs";
import type { FailoverCounts } from "./counts.js";

/** What the way of replication promises. Each loser is told, and each process returns, in all of them. */
export interface Promised {
  readonly overlaps: "none" | "possible";
  /** No lease is lost but by expiry. */
  readonly leases?: "kept";
  /** Possible only where two primaries take writes at the same time. */
  readonly tokenRegressions?: "possible";
}

/** What was seen of one set-up on one server, in all runs whose counts went into the same file. */
export interface FailoverResult {
  readonly server: string;
  readonly setup: string;
  readonly promised: Promised;
  readonly runs: number;
  readonly counts: FailoverCounts;
  /** What only some set-ups count; the highest of all runs. */
  readonly also: Readonly<Record<string, number>>;
}

/** Names the file to which results are added. */
export const RESULTS_VARIABLE = "LOCKTENDER_FAILOVER_RESULTS";

/** These say how bad it was at worst; all other counts are sums. */
const WORST: ReadonlySet<string> = new Set([
  "longestOverlapMs",
  "slowestBackMs",
  "backWithinMs",
  "processes",
]);

/** One line for people, and the counts for the file. */
export function report(result: FailoverResult, seed: number): void {
  const { failovers, grants, overlaps, longestOverlapMs, tokenRegressions, lost, notTold } = result.counts;
  const { notBack, slowestBackMs } = result.counts;
  const line = [
    `${failovers} failovers, ${grants} grants`,
    `${overlaps} overlaps${overlaps > 0 ? ` (${longestOverlapMs} ms at most)` : ""}`,
    `${tokenRegressions} token regressions`,
    `${notTold} of ${lost} losers not told`,
    `${notBack} processes not back (slowest ${slowestBackMs} ms)`,
    ...Object.entries(result.also).map(([what, count]) => `${count} ${what}`),
    `seed ${seed}`,
  ].join(", ");
  console.log(`${result.server}, ${result.setup}: ${line}`);
  const file = process.env[RESULTS_VARIABLE];
  // One line each, in one go: several set-ups may run at a time.
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(result)}\n`);
}

/** What stands in such a file; a set-up that was run several times on the same server is one result. */
export function readResults(file: string | URL): FailoverResult[] {
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  const results = lines.map((line) => JSON.parse(line) as FailoverResult);
  return results.reduce<FailoverResult[]>(added, []);
}

/** A set-up that was run before on the same server has its counts added up. */
export function added(known: readonly FailoverResult[], result: FailoverResult): FailoverResult[] {
  const same = ({ server, setup }: FailoverResult) => server === result.server && setup === result.setup;
  const before = known.find(same);
  if (before === undefined) return [...known, result];
  const { errors, ...numbers } = result.counts;
  const counts = {
    ...numbers,
    ...combined(before.counts, numbers, (name) => !WORST.has(name)),
    errors: { ...before.counts.errors, ...errors, ...combined(before.counts.errors, errors, () => true) },
  };
  const also = combined(before.also, result.also, () => false);
  const sum = { ...result, runs: before.runs + result.runs, counts, also };
  return known.map((one) => (same(one) ? sum : one));
}

/** The numbers that both have: their sum, or the greater one. */
function combined<Numbers extends object>(
  before: object,
  now: Numbers,
  isSum: (name: string) => boolean,
): Record<keyof Numbers, number> {
  const earlier = before as Readonly<Record<string, number>>;
  const pairs = Object.entries(now).map(([name, value]) => {
    const known = earlier[name] ?? 0;
    return [name, isSum(name) ? known + Number(value) : Math.max(known, Number(value))];
  });
  return Object.fromEntries(pairs);
}
