import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** The folder of packages that this project has installed. */
export const INSTALLED = join(ROOT, "node_modules");

/** The tarball that would be published. It is not built again: the tests run what the build before them made. */
export async function pack(): Promise<{ readonly file: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "locktender-packed-"));
  const args = ["pack", "--ignore-scripts", "--json", "--pack-destination", folder];
  const [packed] = JSON.parse((await run("npm", args, { cwd: ROOT })).stdout) as { filename: string }[];
  return {
    file: join(folder, packed?.filename ?? ""),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Puts the package into a project as npm would, and gives its tarball. */
export async function installPacked(project: string): Promise<Uint8Array> {
  const { file, remove } = await pack();
  const target = join(project, "node_modules/locktender");
  await mkdir(target, { recursive: true });
  await run("tar", ["-xzf", file, "--strip-components=1", "-C", target]);
  const tarball = await readFile(file);
  await remove();
  return tarball;
}

/** Puts packages and all that they depend on into a project. They are copied: a link would lead to what lies beside them. */
export async function installCopies(
  project: string,
  names: Iterable<string>,
  from = INSTALLED,
): Promise<void> {
  const wanted = new Set(names);
  for (const name of wanted) {
    const source = join(from, name);
    // An optional dependency is not there on every platform.
    const text = await readFile(join(source, "package.json"), "utf8").catch(() => undefined);
    if (text === undefined) continue;
    const { dependencies = {}, optionalDependencies = {} } = JSON.parse(text) as Record<string, object>;
    for (const needed of Object.keys({ ...dependencies, ...optionalDependencies })) wanted.add(needed);
    const target = join(project, "node_modules", name);
    await mkdir(dirname(target), { recursive: true });
    await cp(source, target, { recursive: true });
  }
}

/** The same with everything that a folder of packages holds. Hard links take no time, where the disk is the same. */
export async function installAll(project: string, from: string): Promise<void> {
  const target = join(project, "node_modules");
  await mkdir(target, { recursive: true });
  const copy = (how: string) => run("cp", [how, `${from}/.`, target]);
  await copy("-al").catch(() => copy("-a"));
}
