import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, vi } from "vitest";
import { filesOf } from "../examples/blocks.js";
import { installAll, installCopies, installPacked } from "../support/packed.js";

const run = promisify(execFile);
const APPEARS_WITHIN_MS = 30_000;

/** A project that is made of all files of a page, with the packages that the matrix has installed for it. */
export async function projectOf(
  page: string,
  type: "commonjs" | "module",
  change: (text: string) => string = (text) => text,
): Promise<{ readonly folder: string; remove(): Promise<void> }> {
  const from = process.env.LOCKTENDER_TEST_FRAMEWORK_FROM;
  if (from === undefined) throw new Error("npm run test:matrix -- frameworks");
  const folder = await mkdtemp(join(tmpdir(), "locktender-framework-"));
  await installAll(folder, from);
  await installCopies(folder, ["ioredis"]);
  await installPacked(folder);
  const files = [...filesOf(page)].map(([name, { text }]) => [name, change(text)] as const);
  for (const [name, text] of [["package.json", JSON.stringify({ private: true, type })] as const, ...files]) {
    await mkdir(join(folder, dirname(name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

/** Compiles the project with its own compiler, into `out`. An error shows what the compiler says. */
export async function compile(folder: string, options: object): Promise<void> {
  const compilerOptions = {
    target: "es2022",
    lib: ["es2023", "esnext.disposable"],
    strict: true,
    types: ["node"],
    rootDir: ".",
    outDir: "out",
    ...options,
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, exclude: ["out"] }));
  await run(process.execPath, ["node_modules/typescript/bin/tsc", "-p", "."], { cwd: folder }).catch(
    (error: { stdout: string }) => {
      throw new Error(error.stdout);
    },
  );
}

/** One of several processes that run the same program. */
export interface Replica {
  /** What it has printed so far, both ways. */
  readonly output: string;
  /** Resolves when that has been printed. */
  printed(text: string): Promise<void>;
  send(signal: NodeJS.Signals): void;
  /** The code, or the signal that has ended it. */
  readonly exited: Promise<number | NodeJS.Signals>;
}

export function start(folder: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Replica {
  const child = spawn(process.execPath, args, {
    cwd: folder,
    env: { ...process.env, NODE_OPTIONS: "", NO_COLOR: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  return {
    get output() {
      return output;
    },
    printed: (text) => vi.waitFor(() => expect(output).toContain(text), { timeout: APPEARS_WITHIN_MS }),
    send: (signal) => child.kill(signal),
    exited: once(child, "close").then(([code, signal]) => code ?? signal),
  };
}
