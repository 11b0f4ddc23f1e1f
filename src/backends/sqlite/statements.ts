import { Routines } from "./routines.js";
import { sql } from "./sql.generated.js";

/** What we use of a statement of `libsql` or `better-sqlite3`. */
export interface SqliteStatement {
  run(...params: unknown[]): { readonly changes: number };
  get(...params: unknown[]): unknown;
  all(...params: unknown[]): unknown[];
  safeIntegers(toggle?: boolean): unknown;
}

/** What we use of a database of `libsql` or `better-sqlite3`. */
export interface SqliteDatabase {
  readonly inTransaction: boolean;
  prepare(source: string): SqliteStatement;
  exec(source: string): unknown;
  close(): unknown;
}

interface Query<P, R> {
  get(params: P): R | undefined;
  all(params: P): R[];
}

export interface RecordRow {
  id: string;
  ticket: number;
  weight: number;
  capacity: number;
  came_us: number;
  granted_us: number | null;
  deadline_us: number;
  owner: string;
  note: string;
}

export interface ForcedRow {
  seq: number;
  id: string;
  name: string;
  ticket: number;
  reason: string;
  by_whom: string | null;
}

type At = { name: string; nowUs: number };

/** Where the line between holders and waiters runs at a name. */
export interface LineRow {
  readonly name: string;
  readonly first_waiting: number | null;
  readonly left_until: number | null;
}

/**
 * Every statement, prepared once per connection. None of them may write outside `Session.transact`: in libsql
 * a `run` that found the file busy stays active, and an autocommit after it is silently undone
 * (tursodatabase/libsql-client-ts#352).
 */
export interface Statements {
  readonly dataVersion: { get(): { data_version: number } };
  readonly boot: { get(): { boot: string } | undefined };
  readonly routines: Routines;
  readonly news: Query<{ seq: number }, ForcedRow>;
  readonly lines: Query<{ names: string; nowUs: number }, LineRow>;
  readonly names: Query<{ from: string; most: number }, { name: string }>;
  readonly records: Query<At & { limit: number }, RecordRow>;
}

export function prepareStatements(db: SqliteDatabase): Statements {
  const prepare = <S>(source: string): S => {
    const statement = db.prepare(source);
    // All our integers are exact as numbers; a database that was brought to us may be set to bigint.
    statement.safeIntegers(false);
    return statement as S;
  };
  return {
    dataVersion: prepare("PRAGMA data_version"),
    boot: prepare("SELECT boot FROM machine"),
    routines: new Routines(db),
    news: prepare("SELECT seq, id, name, ticket, reason, by_whom FROM forced WHERE seq > :seq ORDER BY seq"),
    lines: prepare(sql.lines),
    names: prepare("SELECT DISTINCT name FROM claims WHERE name >= :from ORDER BY name LIMIT :most"),
    records: prepare(sql.records),
  };
}
