import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

/** A module of the tests, which are TypeScript: the list of engines, their servers, the cache. */
export async function fromTests(path) {
  const file = fileURLToPath(new URL(`../../test/${path}`, import.meta.url));
  return (await runnerImport(file, { configFile: false })).module;
}
