import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { linkedCopy } from "./linked-copy.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

export interface Beside {
  /** Where the compiled code is. */
  readonly dist: string;
  url(path: string): string;
  remove(): Promise<void>;
}

/**
 * The compiled code in a folder of its own, beside other client libraries than the ones installed here: name as it
 * is imported, and name in that folder of packages, ours if not given. What is not named is not installed there.
 */
export async function besideLibraries(
  libraries: Readonly<Record<string, string>>,
  installedIn = join(ROOT, "node_modules"),
): Promise<Beside> {
  const folder = await mkdtemp(join(tmpdir(), "locktender-beside-"));
  const dist = join(folder, "dist");
  await writeFile(join(folder, "package.json"), '{ "type": "module", "private": true }');
  await linkedCopy(process.env.LOCKTENDER_DIST ?? join(ROOT, "dist"), dist);
  for (const [name, installed] of Object.entries(libraries)) {
    const link = join(folder, "node_modules", name);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(installedIn, installed), link, "dir");
  }
  return {
    dist,
    url: (path) => pathToFileURL(join(dist, path)).href,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
