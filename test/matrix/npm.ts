import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { cp, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { cached, cacheFolder } from "./cache.js";

/** Names of packages and the versions wanted: exact ones, or a major version for its newest. */
export type NpmPackages = Readonly<Record<string, string>>;

/** A server that a package brings along. */
export interface NpmServer {
  readonly npm: NpmPackages;
  /** A script of the package to run once. */
  readonly setup: string;
  /** Where a server's programs are looked for, and where they are inside the package. */
  readonly links: Readonly<Record<string, string>>;
}

/** A script of the first package that has to run once; native code is compiled for the Node.js of that folder. */
export interface Setup {
  readonly script: string;
  readonly nodeFolder?: string;
}

const run = promisify(execFile);
const BIG_OUTPUT = { maxBuffer: 64 << 20 };

/** The folder of the cache in which these packages are installed. */
export async function npmInstalled(packages: NpmPackages, setup?: Setup): Promise<string> {
  const exact = Object.fromEntries(
    await Promise.all(
      Object.entries(packages).map(async ([name, version]) => [name, await exactVersion(name, version)]),
    ),
  ) as NpmPackages;
  return cached(folderName(exact, setup?.nodeFolder), (folder) => install(folder, exact, setup));
}

/** The folder of the cache in which the packages are that the lock file of this folder pins. */
export async function pinned(name: string, from: string): Promise<string> {
  const lock = await readFile(join(from, "package-lock.json"));
  const hash = createHash("sha256").update(lock).digest("hex").slice(0, 8);
  return cached(`${name}-${hash}`, async (folder) => {
    for (const file of ["package.json", "package-lock.json", ".npmrc"])
      await cp(join(from, file), join(folder, file));
    await run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], { cwd: folder, ...BIG_OUTPUT });
  });
}

/** The newest of a major version, or what the cache has of it if the registry cannot be asked. */
async function exactVersion(name: string, wanted: string): Promise<string> {
  if (!/^\d+$/.test(wanted)) return wanted;
  try {
    const { stdout } = await run("npm", ["view", `${name}@${wanted}`, "version", "--json"], BIG_OUTPUT);
    const versions = JSON.parse(stdout) as string | string[];
    return typeof versions === "string" ? versions : ([...versions].sort(byNumbers).at(-1) ?? wanted);
  } catch (error) {
    const begin = `${readable(name)}@${wanted}.`;
    const known = (await readdir(join(cacheFolder(), "npm")).catch(() => []))
      .filter((folder) => folder.startsWith(begin) && !folder.includes("unfinished"))
      .map((folder) => folder.slice(begin.length - wanted.length - 1).replace(/-[0-9a-f]{8}$/, ""))
      .sort(byNumbers);
    const newest = known.at(-1);
    if (newest === undefined) throw error;
    return newest;
  }
}

function byNumbers(one: string, other: string): number {
  return one.localeCompare(other, "en", { numeric: true });
}

/** The same for a server, with its programs where those of Debian would be. */
export function npmServer({ npm, setup, links }: NpmServer): Promise<string> {
  return cached(folderName(npm, ...Object.keys(links)), async (folder) => {
    await install(folder, npm, { script: setup });
    for (const [link, target] of Object.entries(links)) {
      await mkdir(join(folder, dirname(link)), { recursive: true });
      const up = dirname(link).replace(/[^/]+/g, "..");
      await symlink(join(up, "node_modules", firstOf(npm), target), join(folder, link));
    }
  });
}

export async function npmVersion(folder: string, name: string): Promise<string> {
  const text = await readFile(join(folder, "node_modules", name, "package.json"), "utf8");
  // Some packages of Node.js say "v20.19.0".
  return (JSON.parse(text) as { version: string }).version.replace(/^v/, "");
}

export function firstOf(packages: NpmPackages): string {
  return Object.keys(packages)[0] ?? "";
}

function folderName(packages: NpmPackages, ...more: readonly (string | undefined)[]): string {
  const wanted = listOf(packages);
  const hash = createHash("sha256").update([...wanted, ...more].join(" "));
  return join("npm", `${readable(wanted[0] ?? "")}-${hash.digest("hex").slice(0, 8)}`);
}

function readable(name: string): string {
  return name.replace(/[^\w.@-]/g, "_");
}

function listOf(packages: NpmPackages): string[] {
  return Object.entries(packages).map(([name, version]) => `${name}@${version}`);
}

/** Scripts are run by name, and no others: newer versions of npm refuse them unless they are asked. */
async function install(folder: string, packages: NpmPackages, setup: Setup | undefined): Promise<void> {
  await writeFile(join(folder, "package.json"), '{ "private": true }');
  const quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
  const args = ["install", "--prefix", folder, "--no-save", "--ignore-scripts", ...quiet];
  await run("npm", [...args, ...listOf(packages)], { cwd: folder, ...BIG_OUTPUT });
  if (setup === undefined) return;
  const { script, nodeFolder } = setup;
  // Native code is compiled on all cores.
  const env: NodeJS.ProcessEnv = { ...process.env, JOBS: "max" };
  if (nodeFolder !== undefined) {
    env.PATH = `${join(nodeFolder, "bin")}:${env.PATH}`;
    env.npm_config_nodedir = nodeFolder;
  }
  await run("npm", ["run", script], {
    cwd: join(folder, "node_modules", firstOf(packages)),
    env,
    ...BIG_OUTPUT,
  });
}
