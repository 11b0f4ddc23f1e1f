import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RESULTS_VARIABLE, readResults } from "../failover/results.js";
import { ensurePrograms } from "../servers/programs.js";
import { TEST_PROGRAMS } from "../servers/test-programs.js";
import { SAFETY } from "../support/safety.mjs";
import { writeFailovers } from "./failover-tables.js";
import { JOBS, type Job, type Prepared } from "./jobs.js";
import { closingLine, type Outcome, runJob } from "./run-job.js";
import { writeTable } from "./table.js";

/** More would disturb tests that measure time, on two cores. */
const SIDE_BY_SIDE = 2;
/** More failures than this are no accident. */
const MOST_REPEATED = 8;
const USAGE = `usage: npm run test:matrix -- [--list] [--write] [words]

Without words everything is run, and the tables in the docs are written. With words only
what has one of them in its name or its group (servers, node, runtimes, clients, bundlers, frameworks,
typescript, test-tools, install, migration, site, failovers).
--list   show what there is, and run nothing
--write  write what has passed into the tables, also after a part
`;

interface Selected {
  readonly job: Job;
  readonly prepared: Prepared;
}

export async function main(args: readonly string[]): Promise<number> {
  const flags = args.filter((arg) => arg.startsWith("-"));
  const words = args.filter((arg) => !arg.startsWith("-"));
  const jobs = JOBS.filter((job) => words.length === 0 || words.some((word) => isMeant(job, word)));
  if (flags.some((flag) => flag !== "--list" && flag !== "--write") || jobs.length === 0) {
    console.error(USAGE);
    return 2;
  }
  if (flags.includes("--list")) {
    for (const { id, group, product, which } of jobs) console.log(`${id} (${group}: ${product}, ${which})`);
    return 0;
  }
  await ensurePrograms(TEST_PROGRAMS);
  const { ready, missing } = await prepareAll(jobs);
  const folder = await mkdtemp(join(tmpdir(), "locktender-matrix-"));
  const resultsOf = ({ job }: Selected) => join(folder, job.id);
  const outcomes = await runAll(ready, (one) => ({ [RESULTS_VARIABLE]: resultsOf(one) }));
  await repeatAlone(outcomes);
  for (const { prepared } of ready) await prepared.cleanUp?.();
  for (const line of missing) console.log(line);
  const passed = ready.filter((one) => outcomes.get(one)?.failed === 0);
  if (words.length === 0 || flags.includes("--write")) {
    const today = new Date().toISOString().slice(0, 10);
    const rows = passed.map(({ job, prepared }) => ({ ...job, version: prepared.version }));
    writeTable(rows, today);
    const results = passed.map(resultsOf).filter((file) => existsSync(file));
    writeFailovers(results.flatMap(readResults), today);
  }
  await rm(folder, { recursive: true });
  const notRun = { passed: 0, failed: missing.length, skipped: 0 };
  console.log(closingLine([...outcomes.values(), notRun]));
  return passed.length === jobs.length ? 0 : 1;
}

function isMeant({ id, group }: Job, word: string): boolean {
  return group === word || id === word || id.startsWith(`${word}-`);
}

/** One after the other: what is missing is downloaded before anything is measured. */
async function prepareAll(jobs: readonly Job[]): Promise<{ ready: Selected[]; missing: string[] }> {
  const ready: Selected[] = [];
  const missing: string[] = [];
  for (const [index, job] of jobs.entries()) {
    try {
      const prepared = await job.prepare();
      ready.push({ job, prepared });
      console.log(`${index + 1}/${jobs.length} ready: ${job.id}, ${job.product} ${prepared.version}`);
    } catch (error) {
      missing.push(`missing: ${job.id}, ${job.product} (${job.which}): ${lastWords(error)}`);
      console.log(missing.at(-1));
    }
  }
  return { ready, missing };
}

/** What apt and npm say about it, without the command lines before it and the advice after it. */
function lastWords(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? ` (${lastWords(error.cause)})` : "";
  const lines = (error as { stderr?: string }).stderr?.trim().split("\n") ?? [];
  const said = lines.filter((line) => /^(E:|npm error)/.test(line)).slice(0, 3);
  const text = (said.length > 0 ? said : lines.slice(-3)).join(" ");
  return `${text || (error instanceof Error ? error.message : String(error))}${cause}`;
}

async function runAll(
  selected: readonly Selected[],
  envOf: (one: Selected) => Readonly<Record<string, string>>,
): Promise<Map<Selected, Outcome>> {
  const outcomes = new Map<Selected, Outcome>();
  const runOne = async (one: Selected) => {
    const { prepared } = one;
    const outcome = await runJob({ ...prepared, env: { ...prepared.env, ...envOf(one) } });
    outcomes.set(one, outcome);
    console.log(`${outcomes.size}/${selected.length} ${inWords(one, outcome)}`);
    if (outcome.failed > 0) console.log(outcome.output);
  };
  const queue = [...selected];
  const running = new Map<Selected, Promise<void>>();
  while (queue.length > 0 || running.size > 0) {
    const at = queue.findIndex((one) => fits(one, [...running.keys()]));
    const [next] = at === -1 ? [] : queue.splice(at, 1);
    if (next === undefined) await Promise.race(running.values());
    else
      running.set(
        next,
        runOne(next).finally(() => running.delete(next)),
      );
  }
  return outcomes;
}

/**
 * Tests measure time, and another job runs beside each. One that failed is run again with the machine to itself, and
 * that outcome counts; the first one stays in the output. Failovers, histories and the model are not: two holders,
 * seen once, are a defect.
 */
async function repeatAlone(outcomes: Map<Selected, Outcome>): Promise<void> {
  const failed = [...outcomes].filter(([, outcome]) => outcome.failed > 0);
  if (failed.length > MOST_REPEATED) return;
  const mayRepeat = ({ job }: Selected, { output }: Outcome) =>
    job.group !== "failovers" && !failedFiles(output).some((file) => SAFETY.test(file));
  for (const [one] of failed.filter(([one, outcome]) => mayRepeat(one, outcome))) {
    const outcome = await runJob(one.prepared);
    outcomes.set(one, outcome);
    console.log(`once more, alone: ${inWords(one, outcome)}`);
    if (outcome.failed > 0) console.log(outcome.output);
  }
}

function failedFiles(output: string): readonly string[] {
  return [...output.matchAll(/^ FAIL {2}(\S+)/gm)].map(([, file = ""]) => file);
}

function inWords({ job, prepared }: Selected, { passed, failed, skipped, seconds }: Outcome): string {
  const state = failed === 0 ? "passed" : "FAILED";
  const counts = `${passed} passed, ${failed} failed, ${skipped} skipped`;
  return `${state}: ${job.id}, ${job.product} ${prepared.version}, ${seconds} s (${counts})`;
}

/** Two versions of a product would do the same heavy things at the same moment. */
function fits({ job }: Selected, running: readonly Selected[]): boolean {
  return running.length < SIDE_BY_SIDE && running.every((one) => one.job.product !== job.product);
}
