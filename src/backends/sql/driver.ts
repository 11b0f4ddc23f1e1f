import type { LockError } from "../../core/errors.js";
import type { Row, SqlValue } from "./connection.js";
import type { Pool } from "./pool.js";
import type { Routine } from "./routines.js";

/** What an error of the library or the server says about the next step. */
export type Meaning =
  /** The connection cannot be used again. */
  | "broken"
  /** Two that were in each other's way: all of it was undone, and it is worth another try. */
  | "collision"
  /** Refused as a whole, because what was prepared is no longer so: worth another try at once. */
  | "stale"
  /** There are no routines, or no tables. */
  | "missing"
  /** This server cannot write, at least for now; nothing has been done. Another connection may lead to one that can. */
  | "read-only"
  | "other";

/** What an error means to whoever runs the program. */
export interface Explanation {
  /** Whether the server itself has said it. */
  readonly isServers: boolean;
  /** Whether it may pass by itself. */
  readonly passes: boolean;
  readonly advice: string | undefined;
}

/** All that a database has to bring along, besides the words of its SQL, to be reached through connections. */
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
