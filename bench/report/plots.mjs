import { median, ratioOf, summary } from "../lib/stats.mjs";
import { barChart } from "./chart.mjs";
import { short } from "./table.mjs";

/** The plots of a run, by the name of their file. All show what was measured at rest. */
export function plotsOf(run) {
  const measured = (id) => run.workloads.find((one) => one.id === id && one.state === "at rest");
  return {
    "uncontended.svg": uncontended(["sequential", "parallel", "sticky"].map(measured)),
    "one-key.svg": oneKey(measured("no-hold")),
    "one-key-2ms.svg": oneKey(measured("hold-2ms")),
  };
}

const isOurs = (name) => name.startsWith("locktender");
const labelOf = (name) => (name === "memory" ? "memory engine" : name);

function uncontended(workloads) {
  const groups = workloads.map(({ title, contenders, unsupported = [] }) => ({
    title: unsupported.length > 0 ? `${title}: not yet supported` : title,
    rows: Object.entries(contenders)
      .filter(([name]) => name !== "bare")
      .map(([name, { rate }]) => ({
        label: labelOf(name),
        own: isOurs(name),
        ...ratioOf(rate, contenders.bare.rate),
      })),
  }));
  const title = "Locks that are free: cycles a second, of the bare client";
  return barChart({ title, groups, from: 1, mark: "bare", format: (value) => `${short(value)} ×` });
}

/** Each of the other libraries in the better of its two settings: the one with more grants. */
function oneKey({ title, contenders }) {
  const rate = (name) => median(contenders[name].rate);
  const names = Object.keys(contenders).filter((name) => {
    const library = name.replace(/, best delay$/, "");
    const settings = [library, `${library}, best delay`].filter((one) => one in contenders);
    return settings.every((one) => rate(one) <= rate(name));
  });
  const rows = (field) =>
    names.map((name) => ({ label: name, own: isOurs(name), ...summary(contenders[name][field]) }));
  const groups = [
    { title: "grants per second: more is better", rows: rows("rate") },
    { title: "p99 wait in milliseconds: less is better", rows: rows("p99") },
  ];
  const lowest = Math.min(...groups.flatMap((group) => group.rows.map(({ value }) => value)));
  const from = 10 ** Math.floor(Math.log10(lowest));
  return barChart({ title, groups, from, format: short });
}
