import { writeFileSync, writeSync } from "node:fs";
import { relative } from "node:path";
import type { SerializedError } from "vitest";
import type { Reporter, TestCase, TestModule } from "vitest/node";

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
    const count = this.#count(modules, errors);
    this.#line = `Tests: ${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`;
    const file = process.env.LOCKTENDER_FAILED_TESTS;
    if (file !== undefined) writeFileSync(file, JSON.stringify(failuresOf(modules, count.failed)));
  }

  #count(modules: readonly TestModule[], errors: readonly SerializedError[]) {
    // What broke outside of a test fails the run too, so the line must not say "0 failed".
    const count = { passed: 0, failed: errors.length, skipped: 0, pending: 0 };
    for (const module of modules) {
      for (const test of module.children.allTests()) count[test.result().state]++;
      for (const part of [module, ...module.children.allSuites()]) {
        if (part.errors().length > 0) count.failed++;
      }
    }
    return { ...count, skipped: count.skipped + count.pending };
  }
}

/**
 * For test/support/run-alone.mjs. What fails before or after the tests of a file, such as the start of its servers,
 * stands there as a test of it. `others` are failures that belong to no file.
 */
function failuresOf(modules: readonly TestModule[], failures: number) {
  const tests = modules.flatMap((module) => {
    const file = relative(process.cwd(), module.moduleId);
    const broken = [module, ...module.children.allSuites()].filter((part) => part.errors().length > 0);
    const names = [...module.children.allTests("failed")].map(nameOf);
    return [...names, ...broken.map(() => "(before or after its tests)")].map((name) => ({ file, name }));
  });
  return { tests, others: failures - tests.length };
}

/** As `--testNamePattern` reads it. */
function nameOf(test: TestCase): string {
  const names = [test.name];
  for (let part = test.parent; part.type === "suite"; part = part.parent) names.unshift(part.name);
  return names.join(" ");
}
