import type { Runner } from "locktender/testing";
import { describe, test } from "vitest";

/** Vitest as the suite sees it; a skipped promise shows its reason in its name. */
export const runner: Runner = {
  describe,
  test,
  together: (name, body) => test.concurrent(name, body),
  skip: (name, reason) => test.skip(`${name} [${reason}]`),
};

/** For all but one of several ways to the same engine. */
export const otherKinds = (shownBy: string) => ({
  kinds: { skip: `the same operations, as shown by ${shownBy}` },
});

/** For engines whose answers take many processes: on a busy machine, each case has them to itself. */
export const oneByOne: Runner = { describe, test, skip: runner.skip };
