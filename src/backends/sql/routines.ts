import {
  claim,
  names,
  poll,
  readCell,
  records,
  release,
  renew,
  sweep,
  tidy,
  writeCell,
} from "./routines.generated.js";

/**
 * The revision of tables and routines together: a change of one of them raises it. It is a part of the routines'
 * names, so that releases that share a database each call their own.
 */
export const REVISION = 3;

/** The lowest revision that may share the tables with this one. A release below it is refused from then on. */
export const BREAKING = 2;

/** What a routine of this release is called. */
export function routineName(name: string): string {
  return `${name}_r${REVISION}`;
}

/** What a variable holds: a name or an id, compared byte by byte, or a type of SQL. */
export type Kind = "name" | "id" | "text" | "integer" | "bigint";

/** Variables and their kinds, in order. */
export type Variables = Readonly<Record<string, Kind>>;

interface Condition {
  /** Runs only if this variable is not 0, or unless it is. */
  readonly when?: string;
  readonly unless?: string;
}

/** A statement that changes rows. */
export interface Change extends Condition {
  readonly sql: string;
  /** The variable that is set to the number of rows it has changed. */
  readonly counts?: string | undefined;
}

/** A SELECT whose one row fills variables, in the order of its columns; they are null if there is no row. */
export interface Query extends Condition {
  readonly select: string;
  /** The rest of it, from its own FROM on. */
  readonly from: string;
  readonly into: readonly string[];
  /** It only locks a row. */
  readonly locks?: true;
}

/** Variables that are computed from others, without a table: name -> expression. */
export interface Computation extends Condition {
  readonly values: Readonly<Record<string, string>>;
}

/** A section that each engine writes itself. */
export interface EngineStep extends Condition {
  readonly engine: "clock" | "notify" | "notify-if-removed" | "notify-released";
}

export type Step = Change | Query | Computation | EngineStep;

/**
 * An operation as it runs on the server: its statements, in one transaction. Written once for all databases, in the
 * .sql file of its name; a dialect turns it into a function, a procedure, or a few calls.
 */
export interface Routine {
  readonly name: string;
  /** What is passed in, in this order. */
  readonly inputs: Variables;
  /** All other variables. Integers begin as 0, the others as null. */
  readonly locals: Variables;
  /** With these fields the steps run for each element of the JSON array `list`. What runs once before is `before`. */
  readonly each?: Variables;
  readonly before?: readonly Step[];
  /** If its answer was lost, it must not simply be asked again: it would answer that nothing is left to do. */
  readonly onlyOnce?: true;
  /** It only reads, but what a server says that is read-only by now may be out of date: it must refuse. */
  readonly onlyOnPrimary?: true;
  readonly steps: readonly Step[];
  /** What comes out: one row of these variables per run, or the columns of `query`. */
  readonly columns: Variables;
  readonly query?: string;
}

/** In the order in which a database is given them. */
export const ROUTINES: readonly Routine[] = [
  ...[claim, release, tidy, renew, poll, names, records, sweep],
  ...[writeCell, readCell],
];

/** As a SELECT, for databases whose procedures know no expressions. */
export function selectOf({ values }: Computation): string {
  const columns = Object.entries(values).map(([name, expression]) => `${expression} AS ${name}`);
  return `SELECT\n  ${columns.join(",\n  ")}`;
}
