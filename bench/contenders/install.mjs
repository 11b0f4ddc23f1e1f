import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { cp, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { fromTests } from "../lib/from-tests.mjs";

const PEERS = fileURLToPath(new URL("../peers/", import.meta.url));
const FILES = ["package.json", "package-lock.json", ".npmrc"];

/** The folder of the cache that holds the other libraries, as bench/peers/package-lock.json pins them. */
export async function installPeers() {
  const { cached } = await fromTests("matrix/cache.ts");
  const lock = await readFile(join(PEERS, "package-lock.json"));
  const hash = createHash("sha256").update(lock).digest("hex").slice(0, 8);
  return cached(`bench-peers-${hash}`, async (folder) => {
    for (const file of FILES) await cp(join(PEERS, file), join(folder, file));
    await promisify(execFile)("npm", ["ci", "--no-audit", "--no-fund"], { cwd: folder });
  });
}

/** Which versions those are. */
export async function peerVersions() {
  return JSON.parse(await readFile(join(PEERS, "package.json"), "utf8")).dependencies;
}
