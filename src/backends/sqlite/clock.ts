import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

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
