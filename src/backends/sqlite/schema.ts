import { quotedText } from "../../core/plain-text.js";
import { unsupported } from "./errors.js";
import { BUSY_TIMEOUT_MS, isInTransaction, type SqliteDatabase } from "./library.js";
import { sql } from "./sql.generated.js";
import type { MachineClock } from "./system.js";

const APPLICATION_ID = 1_280_005_188;
const VERSION = 2;
/** Claims are small, and every commit writes whole pages: smaller ones make it faster. */
const PAGE_BYTES = 2_048;
const CHECKPOINT_PAGES = 2_000;
/** Clocks of different processors may differ a little. */
const CLOCK_SLACK_US = 1_000_000;

/**
 * Makes a database ready for locks. Many processes may do so at once: every step can be repeated, and
 * throws "busy" if another process is at it.
 */
export function setUp(db: SqliteDatabase, clock: MachineClock): void {
  db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  // Before anything is changed: this may be the database of something else.
  inTransaction(db, "BEGIN", () => isEmpty(db));
  useWriteAheadLog(db);
  db.exec(`PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
  inTransaction(db, "BEGIN IMMEDIATE", () => {
    if (isEmpty(db)) db.exec(sql.schema);
    forgetOtherBoots(db, clock.boot, clock.nowUs());
  });
}

function inTransaction(db: SqliteDatabase, begin: string, work: () => void): void {
  db.exec(begin);
  try {
    work();
    db.exec("COMMIT");
  } catch (error) {
    if (isInTransaction(db)) db.exec("ROLLBACK");
    throw error;
  }
}

/**
 * Whether the tables are still to be made; a database that is not ours, or of another version, is refused. Inside
 * a transaction, or another process could make them between our questions.
 */
function isEmpty(db: SqliteDatabase): boolean {
  const application = numberOf(db, "SELECT application_id AS n FROM pragma_application_id");
  const version = numberOf(db, "SELECT user_version AS n FROM pragma_user_version");
  if (application === APPLICATION_ID) {
    if (version === VERSION) return false;
    throw unsupported(
      `the lock file has version ${version} of the tables, and this release of Locktender knows version ${VERSION}. Their locks would not exclude each other: use the newer one of the two releases for all processes.`,
    );
  }
  const objects = numberOf(db, "SELECT count(*) AS n FROM sqlite_schema");
  if (application === 0 && version === 0 && objects === 0) return true;
  throw unsupported(
    "this database belongs to something else. Give the locks a file of their own: a process that writes to it makes all others wait.",
  );
}

function useWriteAheadLog(db: SqliteDatabase): void {
  const mode = textOf(db, "PRAGMA journal_mode");
  // A database in memory has a journal of its own kind, and no other process to share it with.
  if (mode === "wal" || mode === "memory") return;
  db.exec(`PRAGMA page_size = ${PAGE_BYTES}`);
  const changed = textOf(db, "PRAGMA journal_mode = WAL");
  if (changed === "wal") return;
  throw unsupported(
    `SQLite cannot use a write-ahead log here (it says ${quotedText(changed)}): the file system does not let processes share memory.`,
  );
}

/** Claims of an earlier boot are dead, whatever their times say. A process never outlives its boot. */
function forgetOtherBoots(db: SqliteDatabase, boot: string, nowUs: number): void {
  const known = db.prepare("SELECT boot FROM machine").get() as { boot: string } | undefined;
  if (known?.boot !== boot) {
    db.exec("DELETE FROM claims; DELETE FROM forced; DELETE FROM machine");
    db.prepare("INSERT INTO machine (boot) VALUES (?)").run(boot);
  } else if (boot === "") {
    db.prepare("DELETE FROM claims WHERE seen_us > ?").run(nowUs + CLOCK_SLACK_US);
  }
}

/** The file behind a database of the caller's; `undefined` if it is in memory. */
export function fileOf(db: SqliteDatabase): string | undefined {
  const rows = db.prepare("PRAGMA database_list").all() as { name: string; file: string | null }[];
  return rows.find(({ name }) => name === "main")?.file || undefined;
}

function numberOf(db: SqliteDatabase, source: string): number {
  const row = db.prepare(source).get() as { n: number | bigint };
  return Number(row.n);
}

function textOf(db: SqliteDatabase, source: string): string {
  const row = db.prepare(source).get() as { journal_mode: string };
  return row.journal_mode;
}
