import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { fromTests } from "../lib/from-tests.mjs";

const PEERS = fileURLToPath(new URL("../peers/", import.meta.url));

/** The folder of the cache that holds the other libraries, as bench/peers/package-lock.json pins them. */
export async function installPeers() {
  const { pinned } = await fromTests("matrix/npm.ts");
  return pinned("bench-peers", PEERS);
}

/** Which versions those are. */
export async function peerVersions() {
  return JSON.parse(await readFile(join(PEERS, "package.json"), "utf8")).dependencies;
}
