import { copyFile, mkdir, mkdtemp, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ROOT } from "./blocks.js";

export const TSC = join(ROOT, "node_modules/typescript/bin/tsc");

/**
 * A folder with programs of the docs, by the name of their file, ready for the compiler; the compiled ones go to `out`.
 * `globals` is the file of this folder that makes what they use without defining it. It is inside the project, so that the
 * client libraries are found; the package itself is linked into it.
 */
export async function makeProject(
  name: string,
  globals: string,
  sources: ReadonlyMap<string, string>,
): Promise<string> {
  const cache = join(ROOT, "node_modules/.cache");
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, `${name}-`));
  await mkdir(join(folder, "node_modules"));
  await symlink(ROOT, join(folder, "node_modules/locktender"));
  await writeFile(join(folder, "package.json"), '{ "type": "module", "private": true }');
  await copyFile(join(ROOT, "test/examples", globals), join(folder, globals));
  for (const [file, source] of sources) {
    // One without an import is a module all the same.
    await writeFile(join(folder, file), `${source}\nexport {};\n`);
  }
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(tsconfig([globals, ...sources.keys()])));
  return folder;
}

/** As strict as our own, but an example may define what it does not use. */
function tsconfig(files: readonly string[]): object {
  return {
    extends: join(ROOT, "tsconfig.json"),
    compilerOptions: {
      rootDir: ".",
      outDir: "out",
      declaration: false,
      noUnusedLocals: false,
      typeRoots: [join(ROOT, "node_modules/@types")],
    },
    files,
    include: [],
  };
}
