import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { cpus, loadavg, release, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/**
 * A run as it is kept in bench/results:
 *   date, command, commit, quick, settings, machine, versions
 *   workloads: [{ id, state, title, unsupported?, bestDelaysMs?, contenders: { [name]: { [field]: [one per round] } } }]
 */
export const RESULTS = fileURLToPath(new URL("../results/", import.meta.url));
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

export async function describeRun({ quick, settings }) {
  const [{ model }] = cpus();
  const git = (...args) =>
    promisify(execFile)("git", args, { cwd: ROOT }).then(({ stdout }) => stdout.trim());
  return {
    date: new Date().toISOString(),
    command: `npm run bench -- peers${quick ? " --quick" : ""}`,
    commit: await git("rev-parse", "HEAD").catch(() => "unknown"),
    quick,
    settings,
    machine: {
      cpu: model.trim(),
      cores: cpus().length,
      memoryGb: Math.round(totalmem() / 2 ** 30),
      kernel: `${process.platform} ${release()}`,
      loadBefore: loadavg()[0],
    },
    versions: { node: process.versions.node },
  };
}

/** Four digits are more than a measurement is good for; a column of numbers stands on one line. */
export function textOf(run) {
  const rounded = (_, value) => (typeof value === "number" ? Number(value.toPrecision(4)) : value);
  return `${JSON.stringify(run, rounded, 2).replace(/\[[\s\d.,e+-]+\]/g, (column) => column.replace(/\s+/g, " "))}\n`;
}

export async function keep(run, file) {
  const path = file ?? join(RESULTS, `${run.date.slice(0, 16).replace("T", "-").replace(":", "")}.json`);
  await writeFile(path, textOf(run));
  return path;
}

/** The newest of those that are kept: their names are their dates. */
export function newestRun() {
  const names = readdirSync(RESULTS).filter((name) => name.endsWith(".json"));
  const [newest] = names.sort().reverse();
  if (newest === undefined) throw new Error("bench/results is empty: npm run bench -- peers");
  return JSON.parse(readFileSync(join(RESULTS, newest), "utf8"));
}
