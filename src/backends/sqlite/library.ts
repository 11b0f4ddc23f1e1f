import { type LowestVersions, loadNative } from "../../engine-kit/client-library.js";
import type { NodeSqliteDatabase, SqliteDatabase } from "./database.js";
import { unsupported } from "./errors.js";
import { NodeSqlite } from "./node-sqlite.js";

export const LIBRARIES = ["node:sqlite", "libsql", "better-sqlite3"] as const;
export type SqliteLibrary = (typeof LIBRARIES)[number];

/** It blocks the event loop, so it only bridges the moment that another commit takes. */
export const BUSY_TIMEOUT_MS = 2;
const OPTIONS = { timeout: BUSY_TIMEOUT_MS };

/** A library, and how it opens a file. */
export interface Loaded {
  readonly library: SqliteLibrary;
  open(file: string): SqliteDatabase;
}

interface NodeModule {
  readonly DatabaseSync: new (file: string, options: typeof OPTIONS) => NodeSqliteDatabase;
}

interface NativeModule {
  readonly default: new (file: string, options: typeof OPTIONS) => SqliteDatabase;
}

/** Node.js has all that is needed from 24 on, and prints a warning about it until 24.15 and 25.7. */
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
const HAS_SQLITE = major >= 24;
const IS_SILENT = major > 25 || (major === 25 && minor >= 7) || (major === 24 && minor >= 15);

/** What Node.js brings along comes first, unless it would print a warning in a program that has another one. */
function inOrder(): readonly SqliteLibrary[] {
  if (IS_SILENT) return LIBRARIES;
  return HAS_SQLITE ? ["libsql", "better-sqlite3", "node:sqlite"] : ["libsql", "better-sqlite3"];
}

/** The library that is asked for, or the first that is there. */
export async function loadLibrary(wanted: SqliteLibrary | undefined): Promise<Loaded> {
  for (const library of wanted === undefined ? inOrder() : [wanted]) {
    const open = library === "node:sqlite" ? nodeSqlite() : await native(library);
    if (open !== undefined) return { library, open };
  }
  throw unsupported(
    wanted === "libsql" || wanted === "better-sqlite3"
      ? `the package "${wanted}" is not installed: npm install ${wanted}.`
      : "the embedded engine needs SQLite. Use Node.js 24 or later, which has it, or install a library: npm install libsql, or npm install better-sqlite3.",
  );
}

/** Asked for in this way, it is nothing that a bundler could look for. */
function nodeSqlite(): Loaded["open"] | undefined {
  if (!HAS_SQLITE) return undefined;
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite") as NodeModule;
  return (file) => new NodeSqlite(new DatabaseSync(file, OPTIONS));
}

type NativeLibrary = Exclude<SqliteLibrary, "node:sqlite">;

/** libsql 0.5.1 ended the process in the tests. */
export const LOWEST_VERSIONS: LowestVersions<NativeLibrary> = {
  libsql: "0.5.29",
  "better-sqlite3": "11.0.0",
};

async function native(library: NativeLibrary): Promise<Loaded["open"] | undefined> {
  const module = (await loadNative(library, LOWEST_VERSIONS)) as NativeModule | undefined;
  return module && ((file) => new module.default(file, OPTIONS));
}
