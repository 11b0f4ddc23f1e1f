import type { Runner } from "locktender/testing";
import { describe, test } from "vitest";

/** Vitest as the suite sees it; a skipped promise shows its reason in its name. */
export const runner: Runner = {
  describe,
  test,
  skip: (name, reason) => test.skip(`${name} [${reason}]`),
};
