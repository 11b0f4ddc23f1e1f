import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "libsql";
import { fence, fenceTable } from "locktender/fence";
import { describe, expect, onTestFinished, test } from "vitest";

/** Two connections to one file, as two processes have them. */
function two(): [older: InstanceType<typeof Database>, newer: InstanceType<typeof Database>] {
  const folder = mkdtempSync(join(tmpdir(), "locktender-fence-"));
  const file = join(folder, "resource.db");
  const [older, newer] = [new Database(file), new Database(file)];
  newer.exec(`PRAGMA journal_mode = WAL; ${fenceTable("sqlite")}`);
  onTestFinished(() => {
    older.close();
    newer.close();
    rmSync(folder, { recursive: true });
  });
  return [older, newer];
}

const LOCKED = /database is locked/;
const by = (db: InstanceType<typeof Database>, token: bigint) => () => fence(db, { name: "a", token });

describe("two connections that overlap, on SQLite", () => {
  test("the newer one first: the older one is told that the file is locked, and then that it is stale", () => {
    const [older, newer] = two();
    newer.exec("BEGIN IMMEDIATE");
    by(newer, 2n)();
    older.exec("BEGIN");
    expect(by(older, 1n)).toThrow(LOCKED);
    older.exec("ROLLBACK");
    newer.exec("COMMIT");
    older.exec("BEGIN");
    expect(by(older, 1n)).toThrow(/is stale/);
  });

  test("the older one first: the newer one is let in when it has ended", () => {
    const [older, newer] = two();
    older.exec("BEGIN");
    by(older, 1n)();
    expect(() => newer.exec("BEGIN IMMEDIATE")).toThrow(LOCKED);
    older.exec("COMMIT");
    newer.transaction(by(newer, 2n)).immediate();
    expect(older.transaction(by(older, 1n))).toThrow(/is stale/);
  });

  test("a snapshot from before the newer one does not let the older one in", () => {
    const [older, newer] = two();
    older.exec("BEGIN");
    older.prepare("SELECT * FROM locktender_fence").all();
    newer.transaction(by(newer, 2n)).immediate();
    expect(by(older, 1n)).toThrow(LOCKED);
  });

  test("a connection that once met a locked file works on, and sees what has happened since", () => {
    const [older, newer] = two();
    newer.exec("BEGIN IMMEDIATE");
    older.exec("BEGIN");
    expect(by(older, 1n)).toThrow(LOCKED);
    older.exec("ROLLBACK");
    newer.exec("COMMIT");
    for (const token of [1n, 2n, 3n]) {
      newer.transaction(by(newer, token)).immediate();
      older.transaction(by(older, token))();
    }
  });
});
