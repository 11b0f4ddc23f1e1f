import { readdirSync, readFileSync, readlinkSync } from "node:fs";

const CONNECTED = /^(01|02)$/;

/** How many connections this process has to these ports. Node.js itself counts only those that keep it alive. */
export function ownSockets(ports: readonly number[]): number {
  const inodes = new Set(readdirSync("/proc/self/fd").flatMap((fd) => inodeOf(`/proc/self/fd/${fd}`) ?? []));
  const lines = readFileSync("/proc/self/net/tcp", "latin1").trim().split("\n").slice(1);
  const sockets = lines.map((line) => line.trim().split(/\s+/));
  return sockets.filter(([, , remote = "", state = "", , , , , , inode = ""]) => {
    const port = Number.parseInt(remote.split(":")[1] ?? "", 16);
    return ports.includes(port) && CONNECTED.test(state) && inodes.has(inode);
  }).length;
}

function inodeOf(file: string): string | undefined {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(file))?.[1];
  } catch {
    return undefined; // It was closed meanwhile.
  }
}
