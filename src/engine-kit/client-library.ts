import { readFileSync } from "node:fs";
import { asError, LockError, partOf } from "../core/errors.js";
import { plainText } from "../core/plain-text.js";

const found = new Map<string, string | undefined>();

/** Not there where a tool has made CommonJS of this package: then no version is known. */
let resolvePackage: ((name: string) => string) | undefined;

/** Before that, `installed` names a library without its version. */
export const versionsKnown: Promise<void> = import("./import-meta.js").then(
  (module) => {
    resolvePackage = module.resolvePackage;
  },
  () => undefined,
);

/**
 * A client library as people name it, with its version: `"some-client 1.2.3"`. Without a version if that cannot be found
 * out, as in a program that is one file.
 */
export function installed(library: string): string {
  const version = installedVersion(library);
  return version === undefined ? library : `${library} ${version}`;
}

function installedVersion(library: string): string | undefined {
  if (!found.has(library) && resolvePackage !== undefined) found.set(library, versionOf(library));
  return found.get(library);
}

/** The lowest version of each client library that works. They stand beside what loads the libraries. */
export type LowestVersions<Library extends string = string> = Readonly<Record<Library, string>>;

/**
 * For a library that has been loaded for a URL. One whose version cannot be found out is taken as it is. The ranges of
 * package.json say nothing of versions: npm would hold them against a library that a program has for something else.
 */
export async function refuseOlder<L extends string>(library: L, lowestOf: LowestVersions<L>): Promise<void> {
  await versionsKnown;
  const version = installedVersion(library);
  const lowest = lowestOf[library];
  if (version === undefined || !isBelow(version, lowest)) return;
  const [major] = lowest.split(".");
  throw new LockError(
    "unsupported",
    `${library} ${plainText(version)} is installed, and ${lowest} is the lowest version that can be used here. Install a newer one: npm install ${library}@${major}`,
  );
}

function isBelow(version: string, lowest: string): boolean {
  const [have, need] = [version, lowest].map((text) => text.split(/[.+-]/, 3).map(Number)) as [
    number[],
    number[],
  ];
  const at = need.findIndex((part, index) => part !== have[index]);
  return at !== -1 && (have[at] ?? 0) < (need[at] ?? 0);
}

/** From its package.json, which lies in the folder of its entry or above, and which it may not export. */
function versionOf(library: string): string | undefined {
  try {
    const entry = resolvePackage?.(library);
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

/** What a library of CommonJS exports. In some bundles its module has no names, and all of them in its `default`. */
export function exportsOf(module: unknown, name: string): unknown {
  return partOf(module, name) === undefined ? partOf(module, "default") : module;
}

/** How Node.js, Bun and Deno name a module that is not there, and bundlers in the code that they put in its place. */
const NOT_FOUND = new Set<unknown>(["ERR_MODULE_NOT_FOUND", "MODULE_NOT_FOUND"]);
const NOT_FOUND_BY_VITE = /^Could not resolve "[^"]+" imported by /;

/**
 * A library of native code, which no bundler can take into a bundle: the name is not written out, so that none tries.
 * It is looked for beside the bundle when it is needed. `undefined` if it is not installed.
 */
export async function loadNative<L extends string>(
  library: L,
  lowestOf: LowestVersions<L>,
): Promise<unknown> {
  let module: unknown;
  try {
    module = await import(/* webpackIgnore: true */ /* @vite-ignore */ library);
  } catch (error) {
    return absent(library, error);
  }
  await refuseOlder(library, lowestOf);
  return module;
}

/**
 * For the `catch` of an `import()` of a client library: `undefined` if that package is not installed. One that is
 * installed and does not load is an error, which says so.
 *
 * The import stands in a `try` with the name written out. Only in this form do all bundlers take the library into the
 * bundle where it is installed, and build without it where it is not.
 */
export function absent(library: string, thrown: unknown): undefined {
  const { message } = asError(thrown);
  const isNotFound = NOT_FOUND.has(partOf(thrown, "code")) || NOT_FOUND_BY_VITE.test(message);
  // What is not found may also be something that the library needs.
  if (isNotFound && missingIn(thrown, message) === library) return undefined;
  const [said = ""] = message.split(/\p{Cc}/u);
  throw new LockError(
    "unsupported",
    `the package "${library}" is installed, but it cannot be loaded: ${said.replace(/\.$/, "")}. Install it again, or another version of it.`,
    { cause: thrown },
  );
}

/** Yarn names it beside the message; in all other messages it is the first name. */
function missingIn(thrown: unknown, message: string): unknown {
  return partOf(partOf(thrown, "data"), "dependencyName") ?? /["']([^"']*)["']/.exec(message)?.[1];
}
