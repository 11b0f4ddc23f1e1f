// Runs failed tests again, one file at a time: node test/support/run-alone.mjs <the file that the reporter wrote>
//
// Many tests measure real time on real servers, side by side. One that fails in a run of thousands may have found a
// defect, or a machine that was too busy. A defect shows itself again: a failed test counts as passed only if its file
// passes three times in a row with the machine to itself. Its first failure stays in the output.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { SAFETY } from "./safety.mjs";

const ROUNDS = 3;
/** More failures than this are no accident. */
const MOST = 8;

/** The longest file takes a quarter of it. */
const LONGEST_MS = 600_000;

// The same cases as in the run that failed; and the runs below must not write their own failures there.
const { LOCKTENDER_FAILED_TESTS: _, ...inherited } = process.env;
const env = { ...inherited, LOCKTENDER_TESTS: "everyday" };

const { tests, others } = JSON.parse(readFileSync(process.argv[2], "utf8") || '{ "tests": [], "others": 1 }');
const isHopeless = others > 0 || tests.length === 0 || tests.length > MOST;
if (isHopeless || tests.some(({ file }) => SAFETY.test(file))) process.exit(1);

/**
 * Whether the whole file passes: tests of a file may build on those before them. A file of that name that has fewer
 * tests than have failed is another one.
 */
function pass(file, failed) {
  const args = ["node_modules/vitest/vitest.mjs", "run", file, "--maxWorkers=1"];
  const { status, stdout } = spawnSync(process.execPath, args, {
    encoding: "utf8",
    env,
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 1 << 28,
    timeout: LONGEST_MS,
  });
  console.log(stdout);
  return status === 0 && Number(/^Tests: (\d+) passed, 0 failed/m.exec(stdout)?.[1]) >= failed;
}

for (let round = 1; round <= ROUNDS; round++) {
  for (const file of new Set(tests.map((test) => test.file))) {
    const names = tests.filter((test) => test.file === file).map(({ name }) => name);
    console.log([`\nOnce more, alone (${round} of ${ROUNDS}): ${file}`, ...names].join("\n  "));
    if (!pass(file, names.length)) process.exit(1);
  }
}
