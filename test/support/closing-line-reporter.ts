import { writeSync } from "node:fs";
import type { SerializedError } from "vitest";
import type { Reporter, TestModule } from "vitest/node";

/**
 * Ends the output with one plain line that any reader of logs understands. It is written when the process
 * exits, because other reporters and the teardown of the servers may still have something to say before.
 */
export default class ClosingLineReporter implements Reporter {
  #line: string | undefined;

  onInit(): void {
    process.once("exit", () => {
      if (this.#line !== undefined) writeSync(1, `${this.#line}\n`);
    });
  }

  onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): void {
    // What broke outside of a test fails the run too, so the line must not say "0 failed".
    const count = { passed: 0, failed: errors.length, skipped: 0, pending: 0 };
    for (const module of modules) {
      for (const test of module.children.allTests()) count[test.result().state]++;
      for (const part of [module, ...module.children.allSuites()]) {
        if (part.errors().length > 0) count.failed++;
      }
    }
    const skipped = count.skipped + count.pending;
    this.#line = `Tests: ${count.passed} passed, ${count.failed} failed, ${skipped} skipped`;
  }
}
