import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
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

/**
 * The clock that all processes of one machine share: microseconds since boot. The wall clock may be set back
 * or forth at any time and decides nothing here.
 */
export class MachineClock {
  /** Names this boot; the times of another one mean nothing. Empty where the system does not tell. */
  readonly boot = bootId();
  readonly #offsetUs = namespaceOffsetUs();

  /** Looked up at each call, so that fake timers work. */
  nowUs(): number {
    return Number(process.hrtime.bigint() / 1000n) - this.#offsetUs;
  }
}

/** The wall clock, which only keeps tickets growing when a name was forgotten. Exact below 2^53. */
export function wallUs(): number {
  return Date.now() * 1000;
}

/**
 * Must be the same for all processes of a boot, so nothing is derived from the wall clock: where there is no
 * id, a clock that runs behind the times in the file is what gives a new boot away.
 */
function bootId(): string {
  try {
    if (process.platform === "linux") return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    if (process.platform === "darwin") {
      const sysctl = ["-n", "kern.bootsessionuuid"];
      return execFileSync("/usr/sbin/sysctl", sysctl, { encoding: "utf8", timeout: 2_000 }).trim();
    }
  } catch {
    // No /proc or no sysctl: the times in the file have to do.
  }
  return "";
}

/** In a time namespace of Linux the monotonic clock is shifted, but the boot and the file are the same. */
function namespaceOffsetUs(): number {
  if (process.platform !== "linux") return 0;
  try {
    const match = /^monotonic\s+(-?\d+)\s+(\d+)/m.exec(readFileSync("/proc/self/timens_offsets", "utf8"));
    return match === null ? 0 : Number(match[1]) * 1e6 + Math.floor(Number(match[2]) / 1e3);
  } catch {
    return 0; // A kernel without time namespaces.
  }
}
