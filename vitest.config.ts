import { fileURLToPath } from "node:url";
import { configDefaults, defineConfig } from "vitest/config";
import { MATRIX_ONLY } from "./test/matrix/matrix.js";
import { SlowFirst } from "./test/support/slow-first.js";

/** Tests run what is published: the compiled code. A planted bug is a changed copy of it. */
const dist = process.env.LOCKTENDER_DIST ?? fileURLToPath(new URL("./dist", import.meta.url));

export default defineConfig({
  resolve: {
    alias: [
      { find: /^#lib\//, replacement: `${dist}/` },
      { find: /^locktender$/, replacement: `${dist}/index.js` },
      { find: /^locktender\/(core)$/, replacement: `${dist}/$1.js` },
      { find: /^locktender\/(fence|testing|engine-kit)$/, replacement: `${dist}/$1/index.js` },
      { find: /^locktender\/([\w-]+)$/, replacement: `${dist}/backends/$1/index.js` },
    ],
  },
  test: {
    include: ["test/**/*.test.ts"],
    exclude: [...configDefaults.exclude, ...(process.env.LOCKTENDER_TESTS === "everyday" ? MATRIX_ONLY : [])],
    globalSetup: "test/servers/global-setup.ts",
    reporters: ["default", "./test/support/closing-line-reporter.ts"],
    // Tests mostly wait, so more files run side by side than there are cores, and within a file three tests that wait.
    sequence: { sequencer: SlowFirst },
    maxWorkers: 4,
    maxConcurrency: 3,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    server: { deps: { external: [/\/dist\//] } },
  },
});
