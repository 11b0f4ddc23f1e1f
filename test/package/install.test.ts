import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { pack } from "../support/packed.js";

const run = promisify(execFile);
const MOST_MORE_MB = 6;
const MOST_MORE_PACKAGES = 2;
const QUIET = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];

/** What `npm install` of these makes of an empty project. */
async function installed(...packages: string[]): Promise<{ packages: number; megabytes: number }> {
  const project = await mkdtemp(join(tmpdir(), "locktender-install-"));
  onTestFinished(() => rm(project, { recursive: true, force: true }));
  await writeFile(join(project, "package.json"), '{ "private": true }');
  await run("npm", ["install", ...QUIET, ...packages], { cwd: project });
  const { stdout } = await run("npm", ["ls", "--all", "--parseable"], { cwd: project });
  return {
    packages: stdout.trim().split("\n").length - 1,
    megabytes: (await bytesOnDisk(join(project, "node_modules"))) / 1e6,
  };
}

async function bytesOnDisk(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(files.map((file) => stat(join(file.parentPath, file.name))));
  return sizes.reduce((sum, { blocks }) => sum + 512 * blocks, 0);
}

test("npm install locktender ioredis takes little more than ioredis alone", async () => {
  const packed = await pack();
  onTestFinished(() => packed.remove());
  const alone = await installed("ioredis");
  const together = await installed("ioredis", packed.file);
  expect(together.packages).toBeGreaterThan(alone.packages);
  expect(together.packages - alone.packages).toBeLessThanOrEqual(MOST_MORE_PACKAGES);
  expect(together.megabytes - alone.megabytes).toBeLessThanOrEqual(MOST_MORE_MB);
});
