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
export const REVISION = 4;

/** The lowest revision that may share the tables with this one. A release below it is refused from then on. */
export const BREAKING = 2;

/** What a routine of this release is called. */
export function routineName(name: string): string {
  return `${name}_r${REVISION}`;
}

/** What is passed in. */
export type SqlValue = string | number | bigint | null;

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
interface Change extends Condition {
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
interface Computation extends Condition {
  readonly values: Readonly<Record<string, string>>;
}

/** A section that each engine writes itself. */
interface EngineStep extends Condition {
  readonly engine: "clock" | "notify" | "notify-if-removed" | "notify-released" | "tell-sticky-holder";
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

/** The lines of a step within its condition, as a function or a procedure has them. */
export function conditioned({ when, unless }: Condition, lines: readonly string[]): readonly string[] {
  // MySQL does not take a condition without a statement in it.
  if (lines.length === 0) return [];
  if (when !== undefined) return [`IF v_${when} <> 0 THEN`, ...lines, "END IF;"];
  return unless === undefined ? lines : [`IF v_${unless} = 0 THEN`, ...lines, "END IF;"];
}

/** How one database writes what our SQL leaves open. */
export interface Dialect {
  /** `@claims`: a table of ours. */
  table(name: string): string;
  /** `:name`: a variable. */
  variable(name: string): string;
  /** `@wall`: the wall clock in microseconds, as an expression. */
  wall(): string;
  /** `@asked(name, ticket)`: the elements of the JSON array `:list` as a table `asked`, with these fields. */
  asked(fields: readonly string[]): string;
  /** `@text(value)`: a number as text. */
  text(value: string): string;
  /** `@utf8(name)`: the bytes of a name as text. */
  utf8(name: string): string;
  /** `@jsonlist(name)`: the names of all rows, as a JSON array. */
  jsonlist(name: string): string;
  /** `@routine(name)`: a routine of this release. */
  routine?(name: string): string;
  /** What it calls differently. */
  readonly rewrites?: readonly (readonly [pattern: RegExp, replacement: string])[];
}

const TABLES: ReadonlySet<string> = new Set(["resources", "claims", "forced", "cells", "revisions"]);
const FUNCTIONS = ["text", "utf8", "jsonlist", "routine"] as const;

/** `@word`, with what stands in parentheses right behind it, or `:variable`; but not `@@variable`, `::type` or `:=`. */
const OPEN = /(?<![@\w])@(\w+)(?:\(((?:[^()]|\([^()]*\))*)\))?|(?<![:\w]):([a-z]\w*)/g;

/** SQL that is written for all databases, as one of them takes it. */
export function translated(source: string, dialect: Dialect): string {
  const { rewrites = [] } = dialect;
  const rewritten = rewrites.reduce((text, [pattern, word]) => text.replace(pattern, word), source);
  return rewritten.replace(
    OPEN,
    (_, word: string | undefined, inside: string | undefined, variable: string) => {
      if (word === undefined) return dialect.variable(variable);
      if (TABLES.has(word)) return dialect.table(word) + (inside === undefined ? "" : `(${inside})`);
      if (word === "wall") return dialect.wall();
      if (word === "asked" && inside !== undefined) return dialect.asked(inside.split(", "));
      const name = FUNCTIONS.find((known) => known === word);
      if (name === undefined || inside === undefined || dialect[name] === undefined)
        throw new Error(`this database does not know @${word}`);
      return dialect[name](translated(inside, dialect));
    },
  );
}
