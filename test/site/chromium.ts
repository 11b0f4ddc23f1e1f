import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { NeededProgram } from "../servers/programs.js";

export const CHROMIUM: NeededProgram = { program: "chromium", package: "chromium" };

/** It stays on this machine, and may run as root. */
export const CHROMIUM_FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The file of the program. */
export async function chromiumPath(): Promise<string> {
  const { stdout } = await promisify(execFile)("which", [CHROMIUM.program]);
  return stdout.trim();
}
