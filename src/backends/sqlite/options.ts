import { resolve } from "node:path";
import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption } from "../../core/errors.js";
import { knownOptions } from "../../core/options.js";
import { plainText } from "../../core/plain-text.js";
import { hasMethods, partOf } from "../../core/shape.js";
import type { SqliteDatabase } from "./database.js";
import { defaultFile } from "./files.js";
import type { LockFileOptions } from "./lock-file.js";

export interface SqliteOptions {
  /** The lock file, on a local disk; without it, one in the user's state directory. */
  readonly file?: string | undefined;
  /** An open database of `libsql` or `better-sqlite3`, used for nothing else; it stays yours to close. */
  readonly database?: SqliteDatabase | undefined;
  /** How long the last ticket of an idle name is kept; `"1h"` if not given. */
  readonly retention?: Duration | undefined;
  /** How long one operation tries while others write; `"2s"` if not given. */
  readonly busyTimeout?: Duration | undefined;
}

export interface SqliteSettings extends LockFileOptions {
  readonly retentionMs: number;
}

const KNOWN = new Set<string>([
  "file",
  "database",
  "retention",
  "busyTimeout",
] satisfies (keyof SqliteOptions)[]);

export function readSqliteOptions(options: SqliteOptions): SqliteSettings {
  knownOptions(options, KNOWN, "sqlite");
  return {
    ...sourceOf(options),
    // A name that is forgotten within the millisecond of its last ticket would draw it again.
    retentionMs: durationMs("retention", options.retention ?? "1h", { minMs: 1 }),
    busyMs: durationMs("busyTimeout", options.busyTimeout ?? "2s", { maxMs: 60_000 }),
  };
}

/** The others do not say whether they are in a transaction, or answer later. */
function isOpenDatabase(database: unknown): database is SqliteDatabase {
  if (!hasMethods(database, ["prepare", "exec"]) || partOf(database, "open") !== true) return false;
  return typeof partOf(database, "inTransaction") === "boolean";
}

function sourceOf({ file, database }: SqliteOptions): Pick<LockFileOptions, "name" | "source"> {
  if (database !== undefined) {
    if (file !== undefined) throw invalidOption("sqlite: give either a file or a database.");
    if (!isOpenDatabase(database)) {
      throw invalidOption(
        "database: must be an open database of libsql or better-sqlite3. One of node:sqlite, sqlite3 or another library cannot be used.",
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
    source: { file: path, createFolder: file === undefined },
  };
}
