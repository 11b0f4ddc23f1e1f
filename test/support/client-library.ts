import { realpathSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { fromBuild } from "./compiled.mjs";

/** A client library as the build under test finds it: in the matrix, another version than the one installed here. */
export async function clientLibrary<Module>(name: string): Promise<Module> {
  return (await import(pathToFileURL(fromBuild.resolve(name)).href)) as Module;
}

/** The folder of packages in which it lies. */
export function clientFolder(name: string): string {
  const file = realpathSync(fromBuild.resolve(name));
  return file.slice(0, file.lastIndexOf("/node_modules/") + "/node_modules".length);
}
