import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { cp, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { cached } from "../matrix/cache.js";

/** The other libraries, by their name on npm, and the page about moving from each. The code of the pages is tested. */
export const PAGES = {
  redlock: "docs/guide/migrating-from-redlock.md",
  "redis-semaphore": "docs/guide/migrating-from-redis-semaphore.md",
  "@verrou/core": "docs/guide/migrating-from-verrou.md",
} as const;
export type Peer = keyof typeof PAGES;
export const PEERS = Object.keys(PAGES) as readonly Peer[];

const PINNED = fileURLToPath(new URL("../../bench/peers/", import.meta.url));
const FILES = ["package.json", "package-lock.json", ".npmrc"];

/** The folder of the cache with these libraries, in the versions that bench/peers pins. */
export async function installPeers(): Promise<string> {
  const lock = await readFile(join(PINNED, "package-lock.json"));
  const hash = createHash("sha256").update(lock).digest("hex").slice(0, 8);
  return cached(`bench-peers-${hash}`, async (folder) => {
    for (const file of FILES) await cp(join(PINNED, file), join(folder, file));
    await promisify(execFile)("npm", ["ci", "--no-audit", "--no-fund"], { cwd: folder });
  });
}
