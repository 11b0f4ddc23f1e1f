import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Longest first: the runs with planted bugs, the whole suite of an engine, and what takes longer than 20 s. */
const SLOW = [
  /\/planted\//,
  /\/conformance\.test|\/conformance-/,
  /\/faults\.test|\/idle\/|\/model\//,
  /\/history\.test|\/cron\.test|\/protocol\.test|\/postgres-js\.test|\/cluster-silence\.test|\/token-floor\.test/,
  /\/pools\.test|\/sessions\.test|\/stopping\.test|\/smoke\.test|\/failover\.test|-faults\.test|\/package\.test/,
];

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
