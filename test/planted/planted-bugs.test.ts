import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createLocks } from "locktender";
import { memory } from "locktender/memory";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { linkedCopy } from "../support/linked-copy.js";
import { BATCH_BUGS } from "./batch-bugs.js";
import type { Bug } from "./bug.js";
import { BUGS } from "./bugs.js";
import { DATABASE_BUGS } from "./database-bugs.js";
import { ENSEMBLE_BUGS } from "./ensemble-bugs.js";
import { EXPIRY_BUGS } from "./expiry-bugs.js";
import { HAND_OFF_BUGS } from "./hand-off-bugs.js";
import { STICKY_BUGS } from "./sticky-bugs.js";
import { TOKEN_BUGS } from "./token-bugs.js";
import { type Outcome, VitestRuns } from "./vitest-runs.js";

// The suite must bite. Each bug is planted in a copy of the compiled code, and the test whose business it
// is must fail on the copy; on a copy without a bug the same tests pass.

const root = fileURLToPath(new URL("../..", import.meta.url));
/** Inside the project, so that the copies find the client libraries. */
const cache = join(root, "node_modules", ".cache");
let folder = "";
const runs = new VitestRuns();
/** Each run begins with work, and other files run beside this one: no more than there are cores. */
const turns = createLocks(memory()).semaphore("runs", 2);

const ALL = [
  ...BUGS,
  ...BATCH_BUGS,
  ...DATABASE_BUGS,
  ...ENSEMBLE_BUGS,
  ...EXPIRY_BUGS,
  ...HAND_OFF_BUGS,
  ...STICKY_BUGS,
  ...TOKEN_BUGS,
];
const POSSIBLE = ALL.filter((bug) => bug.needsRoot !== true || process.getuid?.() === 0);

beforeAll(async () => {
  await mkdir(cache, { recursive: true });
  folder = await mkdtemp(join(cache, "planted-"));
});
afterAll(async () => {
  await runs.end();
  await rm(folder, { recursive: true, force: true });
});

async function plant(bug: Pick<Bug, "name" | "edits">): Promise<string> {
  const dist = await mkdtemp(join(folder, "dist-"));
  await linkedCopy(join(root, "dist"), dist);
  for (const { file, find, replace, times = 1 } of bug.edits) {
    const path = join(dist, file);
    const parts = (await readFile(path, "utf8")).split(find);
    expect(parts.length - 1, `how often "${find}" is in ${file}`).toBe(times);
    await rm(path);
    await writeFile(path, parts.join(replace));
  }
  return dist;
}

/** Runs some tests of the suite against a copy, on the servers that are running anyway. */
async function run(dist: string, file: string, pattern: string): Promise<Outcome> {
  // On a mutex, and not also on what has to be as good as one.
  const onMutex = `^(?!.*, by the (?:write side|last permit) ).*(?:${pattern})`;
  const outcome = await turns.run({ wait: "60s" }, () => runs.run({ dist, file, pattern: onMutex }));
  if (outcome.passed.length + outcome.failed.length === 0)
    throw new Error(`no test of ${file} has run: ${outcome.errors.join()}`);
  return outcome;
}

function literally(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

describe.concurrent("the same tests pass where no bug is planted", () => {
  const files = [...new Set(POSSIBLE.map(({ caughtBy: [file] }) => file))];
  test.for(files)("%s", async (file) => {
    const tests = POSSIBLE.filter(({ caughtBy }) => caughtBy[0] === file).map(({ caughtBy }) => caughtBy[1]);
    const { passed, failed } = await run(
      await plant({ name: "none", edits: [] }),
      file,
      tests.map(literally).join("|"),
    );
    expect(failed).toEqual([]);
    expect(passed).toHaveLength(new Set(tests).size);
  });
});

describe.concurrent("a planted bug is caught", () => {
  test.for(ALL)("$name", async (bug, context) => {
    if (!POSSIBLE.includes(bug)) return context.skip("needs root, and network namespaces");
    const dist = await plant(bug);
    let failed: readonly string[] = [];
    for (let round = 0; failed.length === 0 && round < (bug.byChance ? 3 : 1); round++) {
      ({ failed } = await run(dist, bug.caughtBy[0], literally(bug.caughtBy[1])));
    }
    expect(failed).toHaveLength(1);
  });
});
