import type { Runner } from "locktender/testing";
import { describe, test } from "vitest";

/** Vitest as the suite sees it; a skipped promise shows its reason in its name. */
export const runner: Runner = {
  describe,
  test,
  together: (name, body) => test.concurrent(name, body),
  skip: (name, reason) => test.skip(`${name} [${reason}]`),
};

/** For engines whose answers take many processes: on a busy machine, each case has them to itself. */
export const oneByOne: Runner = { describe, test, skip: runner.skip };
