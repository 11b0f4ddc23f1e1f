import { readFile } from "node:fs/promises";
import { fromTests } from "../lib/from-tests.mjs";

/** The folder of the cache that holds the other libraries, as bench/peers/package-lock.json pins them. */
export async function installPeers() {
  const peers = await fromTests("migration/peers.ts");
  return peers.installPeers();
}

/** Which versions those are. */
export async function peerVersions() {
  const manifest = new URL("../peers/package.json", import.meta.url);
  return JSON.parse(await readFile(manifest, "utf8")).dependencies;
}
