import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Longest first: the whole suite of an engine, and the runs with planted bugs. */
const SLOW = [/\/planted\//, /\/conformance\.test/, /\/conformance-/, /\/history\.test|\/model\//];

/** So that in the end no file is left that all others wait for. Without it, what is short to read comes last. */
export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const found = SLOW.findIndex((pattern) => pattern.test(moduleId));
      return found === -1 ? SLOW.length : found;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
