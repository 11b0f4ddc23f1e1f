import type { Routine } from "./routine.js";

/** A row of an answer, by column. Numbers may come as texts. */
export type Row = Readonly<Record<string, unknown>>;

/** The way to a database. Everything is bounded in time, and fails with a `LockError`. */
export interface SqlLink {
  /** How many claims are renewed by one call. */
  readonly renewalsPerCall: number;
  /** One round trip, one transaction. */
  call(routine: Routine, values: readonly (string | number | bigint | null)[]): Promise<readonly Row[]>;
  close(): Promise<void>;
}
