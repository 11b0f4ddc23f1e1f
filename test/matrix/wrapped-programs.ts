import { existsSync, lstatSync, readlinkSync } from "node:fs";
import { chmod, lstat, open, readdir, readlink, rename, rm, symlink, writeFile } from "node:fs/promises";
import { basename, dirname, isAbsolute, join } from "node:path";

const REAL = ".real";
const HEAD_BYTES = 4096;

/**
 * Programs of another suite want the C library of that suite, which its own loader finds. So each program is
 * renamed, and a script in its place calls it by that loader. Then a caller needs no more than its path to run it, and
 * programs that start one another, as initdb does, find what they look for.
 *
 * @param folder where the packages lie now
 * @param finalFolder where they will lie when the programs run
 */
export async function wrapPrograms(folder: string, finalFolder: string): Promise<void> {
  for (const bin of await programFolders(folder)) {
    const names = await readdir(join(folder, bin));
    const loaders = await Promise.all(names.map((name) => loaderOf(join(folder, bin, name))));
    for (const [index, name] of names.entries()) {
      const loader = loaders[index];
      if (loader === undefined) continue;
      await setAside(join(folder, bin, name));
      const program = join(finalFolder, bin, name + REAL);
      const text = wrapper(finalFolder, inside(folder, loader), program);
      await writeFile(join(folder, bin, name), text);
      await chmod(join(folder, bin, name), 0o755);
    }
  }
}

async function programFolders(folder: string): Promise<string[]> {
  const versions = await readdir(join(folder, "usr/lib/postgresql")).catch(() => []);
  const candidates = [
    "usr/bin",
    "usr/sbin",
    ...versions.map((version) => `usr/lib/postgresql/${version}/bin`),
  ];
  return candidates.filter((bin) => existsSync(join(folder, bin)));
}

/** A link, too, keeps its own name: redis-server is a link to redis-check-rdb, and asks by which name it was called. */
async function setAside(file: string): Promise<void> {
  if (!(await lstat(file)).isSymbolicLink()) return await rename(file, file + REAL);
  await symlink((await readlink(file)) + REAL, file + REAL);
  await rm(file);
}

/** The loader lies in /lib/<machine>-linux-gnu, or in the folder of that name in /usr/lib; so do the libraries. */
function wrapper(folder: string, loader: string, program: string): string {
  const machine = basename(dirname(loader));
  const libraries = ["lib", "usr/lib"].map((lib) => join(folder, lib, machine)).join(":");
  return `#!/bin/sh\nexec "${join(folder, loader)}" --library-path "${libraries}" "${program}" "$@"\n`;
}

/** Links of packages mean paths of the machine they would be installed on: follows them inside the folder. */
function inside(folder: string, path: string): string {
  const parent = dirname(path) === "/" ? "/" : inside(folder, dirname(path));
  const plain = join(parent, path.slice(dirname(path).length));
  if (!lstatSync(join(folder, plain)).isSymbolicLink()) return plain;
  const target = readlinkSync(join(folder, plain));
  return inside(folder, isAbsolute(target) ? target : join("/", parent, target));
}

/** The path of the loader that a program asks for; none for scripts and for programs that need no library. */
async function loaderOf(file: string): Promise<string | undefined> {
  const handle = await open(file).catch(() => undefined);
  if (handle === undefined) return undefined; // a link that leads out of the folder
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    const head = buffer.toString("latin1", 0, bytesRead);
    return head.startsWith("\x7fELF") ? /\/lib[\w/]*\/ld-linux[\w.-]+/.exec(head)?.[0] : undefined;
  } finally {
    await handle.close();
  }
}
