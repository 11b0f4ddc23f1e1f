import { existsSync } from "node:fs";
import { join } from "node:path";

/** The servers whose programs may be those of another version than the one of this machine. */
export type Installed = "redis" | "etcd" | "zookeeper" | "postgres" | "mariadb";

/** Names the folder into which the packages of that other version are unpacked. */
export function fromVariable(server: Installed): string {
  return `LOCKTENDER_TEST_${server.toUpperCase()}_FROM`;
}

/** The folder in which a server is installed: that of the environment, or the root of this machine. */
export function installedIn(server: Installed): string {
  return process.env[fromVariable(server)] || "/";
}

/** The first of these files that is there, for servers that are known by several names. */
export function fileOf(server: Installed, ...paths: readonly [string, ...string[]]): string {
  const files = paths.map((path) => join(installedIn(server), path));
  const found = files.find((file) => existsSync(file));
  if (found === undefined)
    throw new Error(`the ${server} server is not installed: no ${files.join(", no ")}`);
  return found;
}
