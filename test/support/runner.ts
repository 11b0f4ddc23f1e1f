import type { Runner } from "locktender/testing";
import { describe, test } from "vitest";

interface Group {
  readonly name: string;
  /** What runs one after the other, in the order in which it was registered. */
  readonly parts: (() => void)[];
  /** The names and bodies of what waits. */
  readonly waiting: [name: string, body: () => Promise<void>][];
  readonly groups: Group[];
}

/** The groups that are being read, from the outermost to the innermost. */
const open: Group[] = [];

/**
 * What makes no sense for an engine is not registered: docs/what-runs-where.md says it. Vitest takes no empty group.
 * What waits comes after all that does not, and in a group of the same name: Vitest runs side by side what stands side
 * by side, and a group whose last test still waits would keep the next group from beginning.
 */
function group(name: string, body: () => void): void {
  const made: Group = { name, parts: [], waiting: [], groups: [] };
  const around = open.at(-1);
  open.push(made);
  body();
  open.pop();
  if (around !== undefined) {
    around.groups.push(made);
    around.parts.push(() => describeParts(made));
    return;
  }
  describeParts(made);
  describeWaiting(made);
}

const hasParts = ({ parts, groups }: Group): boolean => parts.length > groups.length || groups.some(hasParts);
const hasWaiting = ({ waiting, groups }: Group): boolean => waiting.length > 0 || groups.some(hasWaiting);

function describeParts(made: Group): void {
  if (!hasParts(made)) return;
  describe(made.name, () => {
    for (const part of made.parts) part();
  });
}

function describeWaiting(made: Group): void {
  if (!hasWaiting(made)) return;
  describe.concurrent(made.name, () => {
    for (const [name, body] of made.waiting) test(name, body);
    for (const inner of made.groups) describeWaiting(inner);
  });
}

function add(name: string, body: () => Promise<void>): void {
  const around = open.at(-1);
  if (around === undefined) test(name, body);
  else around.parts.push(() => test(name, body));
}

function addWaiting(name: string, body: () => Promise<void>): void {
  const around = open.at(-1);
  if (around === undefined) test.concurrent(name, body);
  else around.waiting.push([name, body]);
}

/** For engines whose answers take many processes: on a busy machine, each case has them to itself. */
export const oneByOne: Runner = { describe: group, test: add, skip: () => undefined };

/** Vitest as the suite sees it. */
export const runner: Runner = { ...oneByOne, together: addWaiting };

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
