import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Prepared } from "./jobs.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const JOB_TIMEOUT_MS = 600_000;
/** One job has little to compute, and waits most of the time; more workers would disturb the other job's timing. */
const WORKERS = 2;

export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

export interface Outcome extends Counts {
  readonly seconds: number;
  readonly output: string;
}

/** The last line of a run, as test/support/closing-line-reporter.ts writes it. */
export function closingCounts(output: string): Counts | undefined {
  const [, passed, failed, skipped] =
    [...output.matchAll(/^Tests: (\d+) passed, (\d+) failed, (\d+) skipped$/gm)].at(-1) ?? [];
  if (passed === undefined) return undefined;
  return { passed: Number(passed), failed: Number(failed), skipped: Number(skipped) };
}

export function closingLine(all: readonly Counts[]): string {
  const sum = (of: keyof Counts) => all.reduce((total, counts) => total + counts[of], 0);
  return `Tests: ${sum("passed")} passed, ${sum("failed")} failed, ${sum("skipped")} skipped`;
}

/** Runs the tests of a job in a vitest of its own. One that says nothing, or passes nothing, has failed. */
export async function runJob({ node, files, env, config }: Prepared): Promise<Outcome> {
  const started = performance.now();
  const args = ["node_modules/vitest/vitest.mjs", "run", ...files, `--maxWorkers=${WORKERS}`];
  if (config !== undefined) args.push("--config", config);
  const child = spawn(node, args, {
    cwd: ROOT,
    env: { ...process.env, NO_COLOR: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: JOB_TIMEOUT_MS,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  const code = await new Promise<number | null>((resolve) => {
    child.on("error", (error) => {
      output += String(error);
      resolve(null);
    });
    child.on("close", resolve);
  });
  const seconds = Math.round((performance.now() - started) / 1000);
  const counts = closingCounts(output) ?? { passed: 0, failed: 1, skipped: 0 };
  const isBad = (code !== 0 || counts.passed === 0) && counts.failed === 0;
  return { ...counts, ...(isBad ? { failed: 1 } : {}), seconds, output };
}
