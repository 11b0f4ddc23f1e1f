import { type Backend, GIVEN, type Traits } from "../../core/backend.js";
import { installed } from "../../engine-kit/client-library.js";
import { DATABASE_TRAITS, SqlBackend } from "../sql/backend.js";
import { FileWatch } from "./file-watch.js";
import { LockFile } from "./lock-file.js";
import { readSqliteOptions, type SqliteOptions } from "./options.js";

export type {
  NodeSqliteDatabase,
  NodeSqliteStatement,
  SqliteDatabase,
  SqliteLibrary,
  SqliteStatement,
} from "./library.js";
export type { SqliteOptions } from "./options.js";

const TRAITS: Traits = {
  ...DATABASE_TRAITS,
  engine: "sqlite",
  reach: "machine",
  caveats: [
    "Locks are shared by the processes of one machine that use the same file; after a reboot no lock is held.",
    "The file must lie on a local disk. Network file systems are refused where they are recognised, which is on Linux.",
    "A process that is stopped in the middle of a transaction makes all others wait until it runs on or is killed.",
    "Deleting the file while it is in use takes all locks away; holders learn of it at their next renewal.",
    "Tokens of a name that was idle for longer than the retention grow only if the wall clock was not set back by more than that.",
  ],
};

/**
 * Locks in an embedded SQLite file, for `createLocks`: shared by all processes of one machine. The file must lie on a local
 * disk; deleting it while it is in use takes all locks away.
 *
 * @example
 * ```ts
 * import { createLocks } from "locktender";
 * import { sqlite } from "locktender/sqlite";
 *
 * const locks = createLocks(sqlite({ file: "locks.db" }));
 * await locks.mutex("report").run(() => work());
 * await locks.close();
 * ```
 */
export function sqlite(options: SqliteOptions = {}): Backend {
  const settings = readSqliteOptions(options);
  let fileWatch: FileWatch | undefined;
  const file = new LockFile(settings, () => fileWatch);
  return new SqlBackend({
    traits: () => TRAITS,
    client: () => {
      if ("database" in settings.source) return GIVEN;
      return file.library === undefined ? undefined : installed(file.library);
    },
    connection: file,
    retentionMs: settings.retentionMs,
    notifications: (waiters, poller) => {
      fileWatch = new FileWatch(() => file.log, waiters, poller);
      return fileWatch;
    },
  });
}
