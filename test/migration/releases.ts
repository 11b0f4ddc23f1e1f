import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type Block, blocksOf, ROOT } from "../examples/blocks.js";
import { shared } from "../servers/shared.js";
import { INSTALLED } from "../support/packed.js";
import { installPeers, PAGES, type Peer } from "./peers.js";

/** What a process of each release holds. */
export const RELEASES = { old: "release N", both: "release N + 1", fresh: "release N + 2" } as const;
export type Release = keyof typeof RELEASES;

/** The file that a page shows: its first line says which one it is. */
function fileIn(page: string, first: string): string {
  const found = blocksOf(page).find(({ text }: Block) => text.startsWith(`${first}\n`));
  if (found === undefined) throw new Error(`${page} shows no file "${first}"`);
  return found.text;
}

/** A project that has Locktender and another library, and a file for each release. */
export interface Project {
  readonly folder: string;
  fileOf(release: Release): string;
  remove(): Promise<void>;
}

export async function newProject(peer: Peer): Promise<Project> {
  const folder = await mkdtemp(join(tmpdir(), "locktender-migration-"));
  const link = async (name: string, target: string) => {
    await mkdir(dirname(join(folder, "node_modules", name)), { recursive: true });
    await symlink(target, join(folder, "node_modules", name));
  };
  await link("locktender", ROOT);
  await link("ioredis", join(INSTALLED, "ioredis"));
  await link(peer, join(await installPeers(), "node_modules", peer));
  const { url } = await shared("redis");
  const write = (file: string, text: string) =>
    writeFile(join(folder, file), text.replaceAll("redis://127.0.0.1:6379", url));
  await write("old-lock.mjs", fileIn(PAGES[peer], `// old-lock.mjs, ${peer}`));
  for (const [release, words] of Object.entries(RELEASES))
    await write(`${release}.mjs`, fileIn("docs/guide/migrating.md", `// exclusive.mjs, ${words}`));
  return {
    folder,
    fileOf: (release) => join(folder, `${release}.mjs`),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
