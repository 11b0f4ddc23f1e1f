import { barsOf } from "./bars.mjs";
import { barText, contenderRows, resultText, whatText } from "./table.mjs";

/** The numbers of a run as a piece of Markdown. */
export function pageOf(run) {
  const { date, command, commit, machine, settings, versions } = run;
  const { peers, ...servers } = versions;
  const list = (of) =>
    Object.entries(of)
      .map(([name, version]) => `${name} ${version}`)
      .join(", ");
  const bars = barsOf(run).map((row) => [
    `${row.title}${row.state === "at rest" ? "" : `, ${row.state}`}`,
    whatText(row),
    barText(row.bar),
    resultText(row),
    row.verdict === "missed" ? "**missed**" : row.verdict,
  ]);
  const delays = run.workloads
    .filter(({ bestDelaysMs, state }) => bestDelaysMs !== undefined && state === "at rest")
    .map(({ title, bestDelaysMs }) => {
      const each = Object.entries(bestDelaysMs).map(([name, delayMs]) => `${name} ${delayMs} ms`);
      return `- ${title}: ${each.join(", ")}`;
    });
  return [
    `Measured on ${date.slice(0, 10)} at ${commit.slice(0, 10)} by \`${command}\`: medians of ${settings.rounds} rounds. Machine: ${machine.cores} cores (${machine.cpu}), ${machine.memoryGb} GB, load ${machine.loadBefore.toFixed(1)} before the run. Versions: ${list(servers)}. Other libraries: ${list(peers)}.`,
    markdown([["workload", "measure", "bar", "result (95 % interval)", ""], ...bars]),
    "The delays between two asks that gave the other libraries most grants:",
    delays.join("\n"),
    "### All numbers",
    ...run.workloads.map((workload) => {
      const { title, state } = workload;
      return `**${title}**, ${state}\n\n${markdown(contenderRows(workload))}`;
    }),
    "",
  ].join("\n\n");
}

function markdown([head, ...rows]) {
  const line = (cells) => `| ${head.map((_, column) => cells[column] ?? "").join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
