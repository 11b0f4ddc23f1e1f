import { resolve } from "node:path";
import { type Duration, durationMs } from "../../core/duration.js";
import { hasMethods, invalidOption, partOf } from "../../core/errors.js";
import { knownEngineOptions } from "../../core/options.js";
import { plainText } from "../../core/plain-text.js";
import {
  adaptedNodeSqlite,
  isNodeSqlite,
  LIBRARIES,
  type NodeSqliteDatabase,
  type SqliteDatabase,
  type SqliteLibrary,
} from "./library.js";
import type { LockFileOptions } from "./lock-file.js";
import { defaultFile } from "./system.js";

/** Which file or database, and how it is used; without any, the lock file of the user. */
export interface SqliteOptions {
  /** The lock file, on a local disk; without it, one in the user's state directory. */
  readonly file?: string | undefined;
  /** An open database of `node:sqlite` (Node.js 24), `libsql` or `better-sqlite3`, used for nothing else; it stays yours to close. */
  readonly database?: SqliteDatabase | NodeSqliteDatabase | undefined;
  /** With a file: which library opens it. If not given, `node:sqlite` where Node.js has it, else the first that is installed. */
  readonly library?: SqliteLibrary | undefined;
  /** How long the last ticket of an idle name is kept; `"1h"` if not given. */
  readonly retention?: Duration | undefined;
  /** How long one operation tries while others write; `"2s"` if not given. */
  readonly busyTimeout?: Duration | undefined;
}

interface SqliteSettings extends LockFileOptions {
  readonly retentionMs: number;
}

export const KNOWN: ReadonlySet<string> = new Set<string>([
  "file",
  "database",
  "library",
  "retention",
  "busyTimeout",
] satisfies (keyof SqliteOptions)[]);

export function readSqliteOptions(options: SqliteOptions): SqliteSettings {
  knownEngineOptions(options, KNOWN, "sqlite");
  return {
    ...sourceOf(options),
    // A name that is forgotten within the millisecond of its last ticket would draw it again.
    retentionMs: durationMs("retention", options.retention ?? "1h", { minMs: 1 }),
    busyMs: durationMs("busyTimeout", options.busyTimeout ?? "2s", { maxMs: 60_000 }),
  };
}

/** None if it cannot be used: others do not say whether they are in a transaction, or answer later. */
function openDatabase(given: SqliteDatabase | NodeSqliteDatabase): SqliteDatabase | undefined {
  const database: unknown = isNodeSqlite(given) ? adaptedNodeSqlite(given) : given;
  if (!hasMethods(database, ["prepare", "exec"]) || partOf(database, "open") !== true) return undefined;
  return typeof partOf(database, "inTransaction") === "boolean" ? (database as SqliteDatabase) : undefined;
}

function sourceOf({
  file,
  database: given,
  library,
}: SqliteOptions): Pick<LockFileOptions, "name" | "source"> {
  if (library !== undefined && !LIBRARIES.includes(library)) {
    throw invalidOption(`library: must be one of ${LIBRARIES.join(", ")}.`);
  }
  if (given !== undefined) {
    if (file !== undefined || library !== undefined) {
      throw invalidOption("sqlite: give either a database, or a file and a library.");
    }
    const database = openDatabase(given);
    if (database === undefined) {
      throw invalidOption(
        "database: must be an open database of node:sqlite (from Node.js 24 on), libsql or better-sqlite3. One of sqlite3 or another library cannot be used.",
      );
    }
    return { name: "the lock database", source: { database } };
  }
  if (file !== undefined && (typeof file !== "string" || file === "" || file === ":memory:")) {
    throw invalidOption("file: must be the path of a file. For locks in memory there is the memory engine.");
  }
  // Absolute, so that it stays the same file when the process changes its directory.
  const path = file === undefined ? defaultFile() : resolve(file);
  return {
    name: `the lock file ${plainText(path)}`,
    source: { file: path, createFolder: file === undefined, library },
  };
}
