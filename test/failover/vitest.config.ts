import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import base from "../../vitest.config.js";

/** The failovers that the matrix runs: `npx vitest run --config test/failover/vitest.config.ts [name]`. */
export default defineConfig({
  ...base,
  root: fileURLToPath(new URL("../../", import.meta.url)),
  test: {
    ...base.test,
    include: ["test/failover/*.failover.ts"],
    // Each of them starts several servers and six processes, which mostly wait.
    maxWorkers: 2,
    maxConcurrency: 1,
    disableConsoleIntercept: true,
    testTimeout: 180_000,
    hookTimeout: 120_000,
  },
});
