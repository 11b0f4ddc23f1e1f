import type { LockError } from "../../core/errors.js";
import type { Pool } from "./pool.js";
import type { Routine } from "./routines.js";

/** A row of an answer, by column. Numbers may come as texts. */
export type Row = Readonly<Record<string, unknown>>;

export type SqlValue = string | number | bigint | null;

/** The way to a database. Everything is bounded in time, and fails with a `LockError`. */
export interface SqlConnection {
  /** How many claims are renewed by one call. */
  readonly renewalsPerCall: number;
  /** One round trip, one transaction. `onSent` is called when a connection was free for it. */
  call(routine: Routine, values: readonly SqlValue[], onSent?: () => void): Promise<readonly Row[]>;
  close(): Promise<void>;
}

/** What an error of the library or the server says about the next step. */
export type Meaning =
  /** The connection cannot be used again. */
  | "broken"
  /** Two transactions were in each other's way: this one was undone as a whole, and is worth another try. */
  | "collision"
  /** Refused as a whole, because what was prepared is no longer so: worth another try at once. */
  | "stale"
  /** There are no routines, or no tables. */
  | "missing"
  /** This server cannot write, at least for now; nothing has been done. Another connection may lead to one that can. */
  | "read-only"
  | "other";

/** What an error means to the operator of the program. */
export interface Explanation {
  /** Whether the server itself has said it. */
  readonly isServers: boolean;
  /** Whether it may pass by itself. */
  readonly passes: boolean;
  readonly advice: string | undefined;
}

/** All that a database has to bring along, besides its dialect of SQL, to be reached through connections. */
export interface Driver<Connection> {
  /** What it is called in messages. */
  readonly engine: string;
  readonly renewalsPerCall: number;
  open(): Promise<Pool<Connection>>;
  /** One round trip, one transaction. */
  call(connection: Connection, routine: Routine, values: readonly SqlValue[]): Promise<readonly Row[]>;
  meaningOf(error: unknown): Meaning;
  explain(error: unknown): Explanation;
  readonly schema: SchemaDriver<Connection>;
}

export interface SchemaDriver<Connection> {
  /** Why this server or connection cannot keep what we promise. */
  unusable(connection: Connection, where: string): Promise<LockError | undefined>;
  /**
   * The highest `breaking` revision of all releases that have made their routines here; an error that means
   * "missing" if this release has not.
   */
  breaking(connection: Connection): Promise<unknown>;
  /** Makes what is missing, one process at a time; before that, `check` is given the same revision, or 0. */
  create(connection: Connection, check: (breaking: unknown) => void): Promise<void>;
  missing(): LockError;
  /** What it is that a newer release has changed. */
  readonly what: string;
}
