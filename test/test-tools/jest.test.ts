import { execFile } from "node:child_process";
import { copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { blocksOf } from "../examples/blocks.js";
import { installAll, installPacked } from "../support/packed.js";

const run = promisify(execFile);
const PAGE = "docs/guide/testing.md";
/** The folder of packages with Jest and the compilers. The matrix sets it. */
const FROM = process.env.LOCKTENDER_TEST_TOOLS_FROM ?? "";

/** As a project of CommonJS has it, such as the template of NestJS. */
const TSCONFIG = {
  compilerOptions: {
    module: "commonjs",
    target: "es2022",
    strict: true,
    esModuleInterop: true,
    allowJs: true,
    skipLibCheck: true,
    types: ["jest", "node"],
  },
};

/** The files that a section of the page shows, by the names in their first lines. */
function filesIn(section: string): ReadonlyMap<string, string> {
  const blocks = blocksOf(PAGE);
  const first = blocks.findIndex(({ before }) => before.includes(`\n### ${section}\n`));
  const next = blocks.findIndex(({ before }, index) => index > first && before.includes("\n### "));
  const shown = blocks
    .slice(first, next === -1 ? undefined : next)
    .filter(({ language }) => language === "js");
  return new Map(shown.map(({ text }) => [/^\/\/ (\S+)/.exec(text)?.[1] ?? "", text]));
}

test.each(["Jest with Babel", "Jest with ts-jest", "Jest with SWC"])(
  "%s runs tests with locks",
  async (section) => {
    const folder = await mkdtemp(join(tmpdir(), "locktender-jest-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    await installAll(folder, FROM);
    await installPacked(folder);
    const files = filesIn(section);
    expect([...files.keys()]).toContain("jest.config.cjs");
    for (const [name, text] of files) await writeFile(join(folder, name), text);
    await writeFile(join(folder, "package.json"), '{ "private": true }');
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(TSCONFIG));
    await copyFile(
      fileURLToPath(new URL("nightly.test.txt", import.meta.url)),
      join(folder, "nightly.test.ts"),
    );
    const jest = join(folder, "node_modules/jest/bin/jest.js");
    const env = { ...process.env, NO_COLOR: "1", NODE_OPTIONS: "" };
    const { stderr } = await run(process.execPath, [jest, "--rootDir", folder], { cwd: folder, env });
    expect(stderr).toMatch(/^Tests: +2 passed, 2 total$/m);
  },
);
