import { mkdir, mkdtemp, rename, rm, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";

/**
 * Where downloads are kept, outside the repository. Database servers run as users of their own and must be able
 * to read them, which root's home folder does not allow.
 */
export function cacheFolder(env: NodeJS.ProcessEnv = process.env, uid = process.getuid?.()): string {
  if (env.LOCKTENDER_CACHE) return env.LOCKTENDER_CACHE;
  if (uid === 0) return "/var/cache/locktender";
  return join(env.XDG_CACHE_HOME || join(homedir(), ".cache"), "locktender");
}

/**
 * The folder of this name in the cache. If it is missing, `make` fills an empty one, which gets its name only when
 * it is complete: a run that is interrupted leaves nothing that looks finished, and of two runs that make the same
 * folder at once the second discards its copy.
 */
export async function cached(name: string, make: (folder: string) => Promise<unknown>): Promise<string> {
  const final = join(cacheFolder(), name);
  if (await exists(final)) return final;
  await mkdir(dirname(final), { recursive: true });
  await refuseHidden(cacheFolder());
  const unfinished = await mkdtemp(`${final}.unfinished-`);
  const folder = join(unfinished, "content");
  try {
    await mkdir(folder);
    await make(folder);
    await rename(folder, final).catch(async (error: unknown) => {
      if (!(await exists(final))) throw error;
    });
    return final;
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
}

export function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

/** As root the servers run as other users: they must be able to enter every folder above the cache. */
async function refuseHidden(folder: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  for (let path = folder; path !== dirname(path); path = dirname(path)) {
    if (((await stat(path)).mode & 0o001) === 0) {
      throw new Error(
        `the cache folder ${folder} is hidden from other users by ${path}: set LOCKTENDER_CACHE`,
      );
    }
  }
}
