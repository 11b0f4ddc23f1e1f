import { median } from "../lib/stats.mjs";
import { barsOf } from "./bars.mjs";

/** Three digits, and no more places than they need. */
export function short(value) {
  if (value === Infinity) return "∞";
  // A slice without a grant has no cost per grant.
  if (value === null || Number.isNaN(value)) return "–";
  if (value >= 1_000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}

export const barText = ({ atLeast, atMost }) =>
  atLeast === undefined ? `≤ ${short(atMost)}` : `≥ ${short(atLeast)}`;

export function resultText({ value, low, high }) {
  if (value === undefined) return "";
  return low === high ? short(value) : `${short(value)} (${short(low)} to ${short(high)})`;
}

/** With the library that was the best one, where a measure is against the best. */
export const whatText = ({ what, beside }) => (beside === undefined ? what : `${what}: ${beside}`);

/** Bar and result side by side. */
export function barTable(run) {
  const rows = barsOf(run).map((row) => [
    `${row.title}${row.state === "at rest" ? "" : `, ${row.state}`}`,
    whatText(row),
    barText(row.bar),
    resultText(row),
    row.verdict,
  ]);
  return columns([["workload", "measure", "bar", "result (95 % interval)", ""], ...rows]);
}

const FIELDS = {
  rate: "per second",
  clientUs: "client µs",
  serverUs: "server µs",
  requests: "requests",
  p50: "p50 ms",
  p99: "p99 ms",
  longest: "longest ms",
  fewest: "fewest",
  most: "most",
  busy: "busy",
  perSecond: "requests per second",
};

/** What was measured of each contender: medians of the rounds; the longest wait is that of all rounds. */
export function contenderRows({ contenders, unsupported = [] }) {
  const fields = Object.keys(FIELDS).filter((field) => Object.values(contenders).some((of) => of[field]));
  const rows = Object.entries(contenders).map(([name, of]) => [
    name,
    ...fields.map((field) => short(field === "longest" ? Math.max(...of.longest) : median(of[field]))),
  ]);
  const refused = unsupported.map((name) => [name, "unsupported"]);
  return [["", ...fields.map((field) => FIELDS[field])], ...rows, ...refused];
}

export const contenderTables = (run) =>
  run.workloads.map(
    (workload) => `${workload.title}, ${workload.state}\n${columns(contenderRows(workload))}`,
  );

function columns(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  return rows
    .map((row) => `  ${row.map((text, column) => text.padEnd(widths[column])).join("  ")}`.trimEnd())
    .join("\n");
}
