import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
// @ts-expect-error A script without types.
import { missing as untyped } from "../../scripts/release-check.mjs";

const missing = untyped as (files: object) => string[];
const READY = {
  manifest: { version: "1.0.0", repository: "a", homepage: "b", bugs: "c", author: "d" },
  changelog: "# Changelog\n\n## [1.0.0] - 2030-01-01\n",
  readme: "npm install locktender",
  license: "MIT License\n\nCopyright (c) 2030 the owner\n",
};

test("nothing is missing where everything is filled in", () => {
  expect(missing(READY)).toEqual([]);
});

test.each([
  [{ manifest: { ...READY.manifest, bugs: undefined } }, /^package\.json has no "bugs"/],
  [{ manifest: { ...READY.manifest, author: undefined } }, /^package\.json has no "author"/],
  [
    { manifest: { ...READY.manifest, version: "1.0.1" } },
    /begins with 1\.0\.0, and package\.json says 1\.0\.1/,
  ],
  [{ changelog: "## [1.0.0] - Unreleased" }, /no date/],
  [{ readme: "The package is not on npm yet." }, /not on npm yet/],
  [{ license: "MIT License\n\nCopyright (c) 2030\n" }, /names no owner/],
])("%j is told", (change, line) => {
  expect(missing({ ...READY, ...change })).toEqual([expect.stringMatching(line)]);
});

test("no address is invented: the three that do not exist yet are listed", async () => {
  const script = fileURLToPath(new URL("../../scripts/release-check.mjs", import.meta.url));
  const outcome = await promisify(execFile)(process.execPath, [script]).catch((error: unknown) => error);
  const { code, stdout } = outcome as { code: number; stdout: string };
  expect(code).toBe(1);
  for (const field of ["repository", "homepage", "bugs"]) expect(stdout).toContain(`no "${field}"`);
});
