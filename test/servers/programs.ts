import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import { promisify } from "node:util";

export interface NeededProgram {
  /** What is looked for on PATH; or the path of a file that has to be there. */
  program: string;
  /** The Debian package that brings it. */
  package: string;
}

const INSTALL_TIMEOUT_MS = 300_000;
const run = promisify(execFile);

/**
 * Makes sure that the programs exist. Missing ones are installed where that needs no question: as root on a
 * machine with apt-get, which is a container or a CI runner. Elsewhere it throws and says what to install.
 */
export async function ensurePrograms(
  needed: readonly NeededProgram[],
  options: { mayInstall?: boolean } = {},
): Promise<void> {
  const missing = await findMissing(needed);
  if (missing.length === 0) return;

  const mayInstall = options.mayInstall ?? (process.getuid?.() === 0 && (await isOnPath("apt-get")));
  if (!mayInstall) throw new Error(explain(missing, "is not on PATH"));

  try {
    await aptGet("update");
    await aptGet("install", "-y", "--no-install-recommends", ...packagesOf(missing));
  } catch (cause) {
    throw new Error(explain(missing, "is not on PATH and could not be installed"), { cause });
  }
  const stillMissing = await findMissing(missing);
  if (stillMissing.length > 0) {
    throw new Error(explain(stillMissing, "is not on PATH, even after its package was installed"));
  }
}

async function findMissing(needed: readonly NeededProgram[]): Promise<NeededProgram[]> {
  const present = await Promise.all(needed.map(({ program }) => isOnPath(program)));
  return needed.filter((_, index) => !present[index]);
}

async function isOnPath(program: string): Promise<boolean> {
  if (isAbsolute(program)) return isThere(program, constants.R_OK);
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  const found = await Promise.all(folders.map((folder) => isThere(join(folder, program), constants.X_OK)));
  return found.includes(true);
}

function isThere(file: string, how: number): Promise<boolean> {
  return access(file, how).then(
    () => true,
    () => false,
  );
}

function packagesOf(programs: readonly NeededProgram[]): string[] {
  return [...new Set(programs.map((program) => program.package))];
}

async function aptGet(...args: string[]): Promise<void> {
  await run("apt-get", args, {
    // Without it a package may stop at a question, which no user is there to answer.
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    timeout: INSTALL_TIMEOUT_MS,
    maxBuffer: 64 * 1024 * 1024,
  });
}

function explain(missing: readonly NeededProgram[], problem: string): string {
  const programs = missing.map(({ program }) => program).join(", ");
  const packages = packagesOf(missing).join(" ");
  return [
    `The tests need a program that ${problem}: ${programs}. On Debian or Ubuntu, install it with`,
    `  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${packages}`,
  ].join("\n");
}
