import { fileURLToPath } from "node:url";
import { pinned } from "../matrix/npm.js";

/** The other libraries, by their name on npm, and the page about moving from each. The code of the pages is tested. */
export const PAGES = {
  redlock: "docs/guide/migrating-from-redlock.md",
  "redis-semaphore": "docs/guide/migrating-from-redis-semaphore.md",
  "@verrou/core": "docs/guide/migrating-from-verrou.md",
} as const;
export type Peer = keyof typeof PAGES;
export const PEERS = Object.keys(PAGES) as readonly Peer[];

/** The folder of the cache with these libraries, in the versions that bench/peers pins. */
export async function installPeers(): Promise<string> {
  return pinned("bench-peers", fileURLToPath(new URL("../../bench/peers/", import.meta.url)));
}
