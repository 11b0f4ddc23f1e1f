import type { NodeSqliteDatabase } from "#lib/backends/sqlite/index.js";
import { loadLibrary } from "#lib/backends/sqlite/library.js";

/**
 * The library by which the engine opens a file here. Tests that look into that file use the same one: of two libraries in
 * one process, the first to close the file undoes the locks of the other.
 */
export const { library: LIBRARY, open: openDatabase } = await loadLibrary(undefined);

/** The class of `node:sqlite`; `undefined` where Node.js has none that can be used. */
export function nodeSqlite(): (new (file: string, options?: object) => NodeSqliteDatabase) | undefined {
  if (Number.parseInt(process.versions.node, 10) < 24) return undefined;
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite") as {
    DatabaseSync: new (file: string) => NodeSqliteDatabase;
  };
  return DatabaseSync;
}

export const NO_NODE_SQLITE = "this Node.js has no node:sqlite that can be used";
