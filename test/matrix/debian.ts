import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { cached, cacheFolder } from "./cache.js";
import { wrapPrograms } from "./wrapped-programs.js";

/** Packages of one suite of Debian, which need not be the suite of this machine. */
export interface DebianPackages {
  readonly suite: string;
  readonly packages: readonly string[];
  /** With all that they depend on, down to the C library; `false` where the machine's own Java runs them. */
  readonly dependencies?: false;
  /** Whose version counts, where the first package only names others. */
  readonly versionOf?: RegExp;
}

export interface Unpacked {
  readonly folder: string;
  /** As its authors name it, such as "9.7.4". */
  readonly version: string;
}

const run = promisify(execFile);
const BIG_OUTPUT = { maxBuffer: 64 << 20 };
const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";
const VERSIONS_FILE = "versions.txt";

/** Newer suites have these in /usr alone; programs still ask for their loader by the old path. */
const MERGED = ["bin", "sbin", "lib", "lib64"];

/** Downloads the packages and unpacks them into a folder of the cache, which needs neither root nor chroot. */
export async function unpacked(wanted: DebianPackages): Promise<Unpacked> {
  const folder = await cached(folderName(wanted), (unfinished) => unpack(wanted, unfinished));
  const versions = await readFile(join(folder, VERSIONS_FILE), "utf8");
  return { folder, version: versionIn(versions, wanted) };
}

/** Debian's `5:8.0.6-3` is version 8.0.6 of what it has packed. */
export function versionIn(versions: string, { packages, versionOf }: DebianPackages): string {
  const isMeant = (name: string) => versionOf?.test(name) ?? name === packages[0];
  const [, version = ""] =
    versions
      .split("\n")
      .map((line) => line.split("\t"))
      .find(([name = ""]) => isMeant(name)) ?? [];
  return version.replace(/^\d+:/, "").replace(/[-+~].*$/, "");
}

/** A suite that moves on is unpacked anew each month. */
function folderName({ suite, packages, dependencies }: DebianPackages): string {
  const month = suite === "sid" ? new Date().toISOString().slice(0, 7) : "";
  const all = [suite, ...packages, String(dependencies), month].join(" ");
  const hash = createHash("sha256").update(all).digest("hex").slice(0, 8);
  return join("debian", `${suite}-${packages[0]}-${hash}`);
}

async function unpack(wanted: DebianPackages, folder: string): Promise<void> {
  const archives = join(folder, "..", "archives");
  // The mirror may have newer packages than the lists of this morning.
  await download(wanted, archives).catch(async () => {
    await rm(join(cacheFolder(), listsName(wanted.suite)), { recursive: true, force: true });
    await download(wanted, archives);
  });
  const versions: string[] = [];
  for (const file of (await readdir(archives)).filter((name) => name.endsWith(".deb")).sort()) {
    const archive = join(archives, file);
    await run("dpkg-deb", ["-x", archive, folder], BIG_OUTPUT);
    versions.push((await run("dpkg-deb", ["--show", archive])).stdout.trim());
  }
  await writeFile(join(folder, VERSIONS_FILE), `${versions.join("\n")}\n`);
  for (const name of MERGED.filter((one) => !existsSync(join(folder, one)))) {
    await symlink(join("usr", name), join(folder, name));
  }
  await wrapPrograms(folder, join(cacheFolder(), folderName(wanted)));
}

async function download({ suite, packages, dependencies }: DebianPackages, archives: string): Promise<void> {
  const lists = await cached(listsName(suite), (folder) => fetchLists(suite, folder));
  // What an attempt with other lists has left may be another version.
  await rm(archives, { recursive: true, force: true });
  await mkdir(join(archives, "partial"), { recursive: true });
  const options = [...aptOptions(lists), "-o", `Dir::Cache::Archives=${archives}`];
  const what =
    dependencies === false
      ? ["download", ...packages]
      : ["install", "--download-only", "-y", "--no-install-recommends", ...packages];
  await run("apt-get", [...options, ...what], { ...BIG_OUTPUT, cwd: archives });
}

/** The lists of a suite are fetched at most once a day. */
function listsName(suite: string): string {
  return join("lists", `${suite}-${new Date().toISOString().slice(0, 10)}`);
}

/** An apt of our own: it knows that suite alone, and takes nothing for installed. */
function aptOptions(root: string): string[] {
  const settings = {
    "Dir::State": root,
    "Dir::State::status": join(root, "status"),
    "Dir::Etc::sourcelist": join(root, "sources.list"),
    "Dir::Etc::sourceparts": join(root, "none"),
    "Dir::Etc::preferences": join(root, "none", "preferences"),
    "Dir::Etc::preferencesparts": join(root, "none"),
    "Dir::Cache::pkgcache": "",
    "Dir::Cache::srcpkgcache": "",
    "Acquire::Check-Valid-Until": "false",
    "Acquire::Languages": "none",
    "APT::Sandbox::User": "root",
  };
  return Object.entries(settings).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
}

async function fetchLists(suite: string, folder: string): Promise<void> {
  await mkdir(join(folder, "lists", "partial"), { recursive: true });
  await mkdir(join(folder, "none"));
  await writeFile(join(folder, "status"), "");
  const signed = existsSync(KEYRING) ? `[signed-by=${KEYRING}] ` : "";
  const failures: unknown[] = [];
  for (const mirror of await mirrors()) {
    await writeFile(join(folder, "sources.list"), `deb ${signed}${mirror} ${suite} main\n`);
    try {
      await run(
        "apt-get",
        [...aptOptions(folder), "-o", "APT::Update::Error-Mode=any", "update"],
        BIG_OUTPUT,
      );
      return;
    } catch (error) {
      failures.push(error);
    }
  }
  throw new Error(`the package lists of Debian's suite ${suite} could not be fetched`, {
    cause: failures[0],
  });
}

/** The mirrors that this machine itself uses, as apt reads them, whatever the format of its lists. */
async function mirrors(): Promise<string[]> {
  const { stdout } = await run("apt-get", ["indextargets", "--format", "$(RELEASE) $(REPO_URI)"]);
  const lines = stdout.split("\n").filter((line) => /^\S+ \S+$/.test(line) && !/^\S+-security /.test(line));
  return [...new Set(lines.map((line) => line.split(" ")[1] ?? ""))];
}
