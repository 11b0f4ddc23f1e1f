import type { SqliteOptions } from "locktender/sqlite";
import { fromBuild } from "../../support/compiled.mjs";

type Database = new (file: string) => NonNullable<SqliteOptions["database"]>;

export const NOT_INSTALLED =
  "better-sqlite3 is not here: where it has no binary, compiling it takes minutes. To test with it: npm install --no-save better-sqlite3";

/** `undefined` where it is not installed. One that is installed and cannot be loaded is an error. */
export function betterSqlite3(): Database | undefined {
  try {
    fromBuild.resolve("better-sqlite3");
  } catch {
    return undefined;
  }
  return fromBuild("better-sqlite3") as Database;
}
