import { execFile } from "node:child_process";
import { chown } from "node:fs/promises";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Database servers refuse to run as root: what stands in front of a command line that is to run as that user. */
export function asUser(user: string): readonly string[] {
  if (process.getuid?.() !== 0) return [];
  return ["setpriv", `--reuid=${user}`, `--regid=${user}`, "--clear-groups"];
}

export async function giveTo(user: string, folder: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const id = async (flag: string) => Number((await run("id", [flag, user])).stdout);
  await chown(folder, await id("-u"), await id("-g"));
}

export async function runAs(user: string, folder: string, command: readonly string[]): Promise<void> {
  const [program = "", ...args] = [...asUser(user), ...command];
  await run(program, args, { cwd: folder });
}
