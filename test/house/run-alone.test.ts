import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const PASSES = {
  file: "test/core/duration.test.ts",
  name: "a duration is milliseconds, or a number with its unit",
};

/** Runs the failed tests again, as continuous integration does; what the reporter wrote is given as text. */
function runAlone(report: string): { status: number | null; rounds: number } {
  const folder = mkdtempSync(join(tmpdir(), "locktender-failed-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "failed.json");
  writeFileSync(file, report);
  const script = join(ROOT, "test/support/run-alone.mjs");
  const { status, stdout } = spawnSync(process.execPath, [script, file], { cwd: ROOT, encoding: "utf8" });
  return { status, rounds: stdout.split("Once more, alone").length - 1 };
}

const failed = (tests: readonly { file: string; name: string }[], others = 0) =>
  JSON.stringify({ tests, others });

test("a failed test counts as passed only after it has passed three times, alone", () => {
  expect(runAlone(failed([PASSES]))).toEqual({ status: 0, rounds: 3 });
});

test("a file that is not there counts as failed", () => {
  expect(runAlone(failed([{ ...PASSES, file: "test/core/no-such.test.ts" }]))).toEqual({
    status: 1,
    rounds: 1,
  });
});

test.each([
  ["a failure of safety", failed([{ file: "test/engines/redis/history.test.ts", name: "any" }])],
  ["a failure outside of tests", failed([PASSES], 1)],
  ["a run with many failures", failed(Array.from({ length: 9 }, () => PASSES))],
  ["a run that ended before its report", ""],
])("%s is not run again", (_, report) => {
  expect(runAlone(report)).toEqual({ status: 1, rounds: 0 });
});

test("the report names the file whose servers did not start, so that it is run again", () => {
  const folder = mkdtempSync(join(tmpdir(), "locktender-report-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const reporter = join(ROOT, "test/support/closing-line-reporter.ts");
  const config = { test: { globals: true, include: ["*.test.mjs"], reporters: ["default", reporter] } };
  writeFileSync(join(folder, "config.mjs"), `export default ${JSON.stringify(config)};`);
  writeFileSync(
    join(folder, "broken.test.mjs"),
    'beforeAll(() => { throw new Error("address already in use"); });\ntest("never runs", () => {});\n',
  );
  const report = join(folder, "failed.json");
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  const args = [vitest, "run", "--root", folder, "--config", join(folder, "config.mjs")];
  const env = { ...process.env, LOCKTENDER_FAILED_TESTS: report };
  const { status } = spawnSync(process.execPath, args, { cwd: ROOT, env, encoding: "utf8" });
  expect(status).toBe(1);
  const { tests, others } = JSON.parse(readFileSync(report, "utf8"));
  expect({ files: tests.map(({ file }: { file: string }) => basename(file)), others }).toEqual({
    files: ["broken.test.mjs"],
    others: 0,
  });
});
