import type { Runner } from "locktender/testing";
import { describe, test } from "vitest";

/** The parts of the groups that are being read, from the outermost to the innermost. */
const groups: (() => void)[][] = [];

/** What cannot be meant for an engine is not registered: docs/what-runs-where.md says it. Vitest takes no empty group. */
function group(name: string, body: () => void): void {
  const parts: (() => void)[] = [];
  groups.push(parts);
  body();
  groups.pop();
  if (parts.length === 0) return;
  add(() =>
    describe(name, () => {
      for (const part of parts) part();
    }),
  );
}

function add(part: () => void): void {
  const around = groups.at(-1);
  if (around === undefined) part();
  else around.push(part);
}

/** For engines whose answers take many processes: on a busy machine, each case has them to itself. */
export const oneByOne: Runner = {
  describe: group,
  test: (name, body) => add(() => test(name, body)),
  skip: () => undefined,
};

/** Vitest as the suite sees it. */
export const runner: Runner = {
  ...oneByOne,
  together: (name, body) => add(() => test.concurrent(name, body)),
};

/** What this machine lacks is shown as skipped, with the reason in its name. */
export const notHere = (name: string, reason: string): void => test.skip(`${name} [${reason}]`);

/** For all but one of several ways to the same engine. */
export const otherKinds = (shownBy: string) => ({
  kinds: { skip: `the same operations, as shown by ${shownBy}` },
});

/**
 * In `npm test` the cases of the mutex run by a mutex on every engine; by the other kinds of locks, whose claims are
 * the same but for two numbers, on memory, SQLite and Redis. The matrix runs all of them on every engine that has a queue.
 */
export const everydayRunner: Runner =
  process.env.LOCKTENDER_TESTS === "everyday"
    ? {
        ...runner,
        describe: (name, body) => {
          if (!/, by the (write side|last permit)$/.test(name)) runner.describe(name, body);
        },
      }
    : runner;
