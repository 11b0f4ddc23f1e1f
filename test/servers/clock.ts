import { execFile } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const COMPILER_PROGRAMS = [
  { program: "gcc", package: "gcc" },
  { program: "/usr/include/dlfcn.h", package: "libc6-dev" },
];

/** The wall clock of a program that is started with this environment. */
export interface WrongClock {
  readonly env: Readonly<Record<string, string>>;
  /** From now on it goes wrong by this much; 0 is right. */
  set(aheadMs: number): Promise<void>;
  remove(): Promise<void>;
}

export async function makeWrongClock(): Promise<WrongClock> {
  const folder = await mkdtemp(join(tmpdir(), "locktender-clock-"));
  // Database servers run as users of their own.
  await chmod(folder, 0o755);
  const [library, file] = [join(folder, "clock.so"), join(folder, "offset")];
  const source = fileURLToPath(new URL("./clock.c", import.meta.url));
  await promisify(execFile)("gcc", ["-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]);
  const set = async (aheadMs: number) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(Math.round(aheadMs * 1000)));
    // In place: the program has the file mapped.
    await writeFile(file, bytes, { flag: "r+" });
  };
  await writeFile(file, Buffer.alloc(8));
  return {
    env: { LD_PRELOAD: library, CLOCK_FILE: file },
    set,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
