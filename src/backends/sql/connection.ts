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
