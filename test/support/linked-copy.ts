import { copyFile, link, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";

/**
 * A copy of a folder whose files are links to the same bytes: many copies of the build cost next to nothing. A file of
 * the copy that is to differ is removed first, and then written; to write into it would change the build itself.
 */
export async function linkedCopy(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) await linkedCopy(source, target);
    // Folders for temporary files are often on another file system, where no link can lead to.
    else await link(source, target).catch(() => copyFile(source, target));
  }
}
