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

interface Command<P> {
  run(params: P): { readonly changes: number };
}

interface Query<P, R> {
  get(params: P): R | undefined;
  all(params: P): R[];
}

/** The claim of an id, if there is one, and what is ahead of it. */
export type AskRow = { ahead: number; load: number; soonest_us: number | null; boot: string } & (
  | { ticket: null; live_capacity: number | null }
  | {
      ticket: number;
      live_capacity: number | null;
      weight: number;
      capacity: number;
      fixed: number;
      min_hold_us: number;
      granted_us: number | null;
      deadline_us: number;
      has_left: number;
    }
);

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
type Standing = { grantedUs: number | null; deadlineUs: number; owner: string; note: string };

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
  readonly ask: { get(params: { name: string; id: string }): AskRow };
  readonly draw: { get(params: { name: string; wallUs: number }): { last_ticket: number } };
  readonly enter: Command<
    At &
      Standing & {
        ticket: number;
        id: string;
        weight: number;
        capacity: number;
        fixed: number;
        minHoldUs: number;
      }
  >;
  readonly refresh: Command<At & Standing & { ticket: number }>;
  readonly renew: Query<At & { id: string; ticket: number; untilUs: number }, { deadline_us: number }>;
  readonly release: Command<At & { id: string }>;
  readonly dropExpired: Command<At>;
  readonly leave: Command<{ name: string; ticket: number }>;
  readonly remove: Command<{ name: string; ticket: number }>;
  readonly force: Command<Omit<ForcedRow, "seq" | "by_whom"> & { by: string | null; untilUs: number }>;
  readonly forgetForced: Command<{ nowUs: number }>;
  readonly forced: Query<{ id: string; nowUs: number }, { reason: string; by_whom: string | null }>;
  readonly news: Query<{ seq: number }, ForcedRow>;
  readonly line: Query<{ names: string; nowUs: number }, LineRow>;
  readonly waiters: { get(params: At & { ticket: number }): { number: number } };
  readonly soonest: { get(params: At): { soonest_us: number | null } };
  readonly names: Query<{ from: string; most: number }, { name: string }>;
  readonly records: Query<At & { limit: number }, RecordRow>;
  readonly sweepRange: {
    get(params: { after: string; most: number }): { last: string | null; number: number };
  };
  readonly sweepClaims: Command<{ after: string; last: string; nowUs: number; most: number }>;
  readonly sweepResources: Command<{ after: string; last: string; idleSinceUs: number }>;
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
    ask: prepare(sql.ask),
    draw: prepare(sql.draw),
    enter: prepare(sql.enter),
    refresh: prepare(sql.refresh),
    renew: prepare(sql.renew),
    release: prepare(sql.release),
    dropExpired: prepare("DELETE FROM claims WHERE name = :name AND deadline_us <= :nowUs"),
    leave: prepare(
      "UPDATE claims SET has_left = 1, deadline_us = granted_us + min_hold_us WHERE name = :name AND ticket = :ticket",
    ),
    remove: prepare("DELETE FROM claims WHERE name = :name AND ticket = :ticket"),
    force: prepare(sql.force),
    forgetForced: prepare("DELETE FROM forced WHERE until_us <= :nowUs"),
    forced: prepare("SELECT reason, by_whom FROM forced WHERE id = :id AND until_us > :nowUs"),
    news: prepare("SELECT seq, id, name, ticket, reason, by_whom FROM forced WHERE seq > :seq ORDER BY seq"),
    line: prepare(sql.line),
    waiters: prepare(
      "SELECT count(*) AS number FROM claims WHERE name = :name AND ticket >= :ticket AND deadline_us > :nowUs",
    ),
    soonest: prepare(
      "SELECT min(deadline_us) AS soonest_us FROM claims WHERE name = :name AND deadline_us > :nowUs",
    ),
    names: prepare("SELECT DISTINCT name FROM claims WHERE name >= :from ORDER BY name LIMIT :most"),
    records: prepare(sql.records),
    sweepRange: prepare(sql["sweep-range"]),
    sweepClaims: prepare(sql["sweep-claims"]),
    sweepResources: prepare(sql["sweep-resources"]),
  };
}
