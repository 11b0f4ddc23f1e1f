import { statSync } from "node:fs";
import { chmod, mkdir, statfs } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { unsupported } from "./errors.js";

/** Where the locks of this user are if no file is given: the same for all processes. */
export function defaultFile(): string {
  return join(stateFolder(), "locktender", "locks.db");
}

function stateFolder(): string {
  const { XDG_STATE_HOME: state, LOCALAPPDATA: local } = process.env;
  // The specification says that a relative path is to be ignored.
  if (state !== undefined && isAbsolute(state)) return state;
  if (process.platform === "win32") return local ?? join(homedir(), "AppData", "Local");
  if (process.platform === "darwin") return join(homedir(), "Library", "Application Support");
  return join(homedir(), ".local", "state");
}

/** Tells a file from another one that has come to its place; `undefined` if there is none. */
export function identityOf(file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? undefined : `${found.dev}:${found.ino}`;
}

/** Ids in the file are capabilities, so no other user may look into the folder. */
export async function createPrivateFolder(folder: string): Promise<void> {
  const created = await mkdir(folder, { recursive: true, mode: 0o700 });
  // The mode of mkdir is cut by the umask, which may have taken our own rights away.
  if (created !== undefined) await chmod(folder, 0o700);
}

/** File systems behind which another machine may stand, by the magic number that Linux gives them. */
const SHARED: ReadonlyMap<bigint, string> = new Map([
  [0x6969n, "NFS"],
  [0x517bn, "SMB"],
  [0xff534d42n, "CIFS"],
  [0xfe534d42n, "SMB2"],
  [0x01021997n, "9p"],
  [0x5346414fn, "AFS"],
  [0x6b414653n, "AFS"],
  [0x73757245n, "Coda"],
  [0x564cn, "NCP"],
  [0x00c36400n, "Ceph"],
  [0x0bd00bd0n, "Lustre"],
  [0x01161970n, "GFS2"],
  [0x7461636fn, "OCFS2"],
  [0x47504653n, "GPFS"],
  [0x19830326n, "BeeGFS"],
  [0x20030528n, "OrangeFS"],
  [0xaad7aaean, "PanFS"],
  [0x786f4256n, "a VirtualBox shared folder"],
  [0xbacbacbcn, "a VMware shared folder"],
  [0x65735546n, "FUSE, behind which anything may be"],
]);

/** The name of a file system that is, or may be, shared with other machines. */
export function sharedFileSystem(type: bigint): string | undefined {
  // On some systems the number is a negative one of 32 bits.
  return SHARED.get(BigInt.asUintN(32, type));
}

/**
 * File locks over a network are not to be relied on, and other machines have other clocks. Outside Linux the
 * numbers mean nothing; there only Windows' network paths are recognised.
 */
export async function refuseNetwork(file: string): Promise<void> {
  const kind =
    process.platform === "linux"
      ? sharedFileSystem((await statfs(dirname(file), { bigint: true })).type)
      : file.startsWith("\\\\")
        ? "a network path"
        : undefined;
  if (kind === undefined) return;
  throw unsupported(
    `the lock file ${file} lies on a file system that other machines may share (${kind}), where SQLite cannot keep locks apart. Name a file on a local disk, or use an engine made for several machines.`,
  );
}
