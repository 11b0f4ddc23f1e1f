import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { blocksOf } from "../examples/blocks.js";
import { INSTALLED, installAll, installCopies, installPacked } from "../support/packed.js";

export const run = promisify(execFile);
const PAGE = "docs/guide/bundlers.md";
const OPTIONAL = /^ *\/\/ Optional, against warnings.*\n.*\n/m;

/** Which bundler is tested, and the folder of packages that it is in. The matrix sets both. */
export const BUNDLER = process.env.LOCKTENDER_TEST_BUNDLER ?? "Rolldown";
const FROM = process.env.LOCKTENDER_TEST_BUNDLER_FROM;

/** What the page says about a bundler. */
export interface Instructions {
  /** Name and content of its configuration, if it needs one. */
  readonly config: { readonly file: string; readonly text: string } | undefined;
  readonly command: string;
}

/** The headings of the page that are about a bundler: it may be used in more than one way. */
export function sectionsOf(bundler: string): string[] {
  const titles = blocksOf(PAGE).flatMap(({ before }) => [...before.matchAll(/^## (.+)$/gm)]);
  return titles.map(([, title = ""]) => title).filter((title) => title.split(",")[0] === bundler);
}

/** The blocks of a section: a file, whose first line is its name, and a command. */
export function instructionsIn(section: string): Instructions {
  const blocks = blocksOf(PAGE);
  const first = blocks.findIndex(({ before }) => before.includes(`\n## ${section}\n`));
  const config = blocks[first]?.language === "js" ? blocks[first] : undefined;
  const command = blocks[config === undefined ? first : first + 1];
  if (command?.language !== "sh") throw new Error(`${PAGE} has no command in ${section}`);
  const [, file = "", text = ""] = /^\/\/ (\S+)\n([\s\S]*)$/.exec(config?.text ?? "") ?? [];
  return { config: config && { file, text }, command: command.text.trim() };
}

/** Without the line that only keeps the bundler quiet. */
export function bare({ config, command }: Instructions): Instructions {
  return { config: config && { ...config, text: config.text.replace(OPTIONAL, "") }, command };
}

/** A folder far from all packages of ours. */
export function temporaryFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), "locktender-bundlers-"));
}

/** With this package, the bundler, ioredis, and, as a trap, libsql with its native files. No other client library. */
export async function newProject(): Promise<{ folder: string; remove(): Promise<void> }> {
  const folder = await temporaryFolder();
  await writeFile(join(folder, "package.json"), '{ "private": true, "type": "module" }');
  if (FROM !== undefined) await installAll(folder, FROM);
  await installCopies(folder, ["ioredis", "libsql"]);
  await installPacked(folder);
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

export async function copyPrograms(names: Readonly<Record<string, string>>, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const [name, as] of Object.entries(names)) {
    await copyFile(fileURLToPath(new URL(name, import.meta.url)), join(folder, as));
  }
}

/** What a command of the project prints, both ways. */
export async function perform(command: string, folder: string): Promise<string> {
  const env = {
    ...process.env,
    PATH: `${FROM === undefined ? INSTALLED : join(folder, "node_modules")}/.bin:${process.env.PATH}`,
    NEXT_TELEMETRY_DISABLED: "1",
    NO_COLOR: "1",
    NODE_ENV: "production",
  };
  const { stdout, stderr } = await run("sh", ["-c", command], { cwd: folder, env });
  return stdout + stderr;
}
