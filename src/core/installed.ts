import { readFileSync } from "node:fs";

const found = new Map<string, string>();

/**
 * A client library as people name it, with its version: `"some-client 1.2.3"`. Without a version if that cannot be found
 * out, as in a program that is one file.
 */
export function installed(library: string): string {
  const known = found.get(library);
  if (known !== undefined) return known;
  const version = versionOf(library);
  const named = version === undefined ? library : `${library} ${version}`;
  found.set(library, named);
  return named;
}

/** From its package.json, which lies in the folder of its entry or above, and which it may not export. */
function versionOf(library: string): string | undefined {
  try {
    const entry = import.meta.resolve(library);
    for (let up = "./"; up.length < 64; up += "../") {
      const { name, version } = read(new URL(`${up}package.json`, entry));
      if (name === library) return String(version);
    }
  } catch {
    // It is only shown to people.
  }
  return undefined;
}

function read(file: URL): { readonly name?: unknown; readonly version?: unknown } {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as object;
  } catch {
    return {};
  }
}
