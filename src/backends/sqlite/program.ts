import type { Row, SqlValue } from "../sql/connection.js";
import { isRow, kindOf, localsOf, type Routine, type Statement } from "../sql/routine.js";
import { withoutComments } from "../sql/text.js";
import type { SqliteDatabase, SqliteStatement } from "./database.js";

type Variables = Record<string, SqlValue>;

/** A statement, and the variables that it takes, in this order. */
interface Prepared {
  readonly statement: SqliteStatement;
  readonly takes: readonly string[];
}

interface Step extends Prepared {
  readonly into: readonly string[] | undefined;
  readonly counts: string | undefined;
  readonly when: string | undefined;
  readonly unless: string | undefined;
}

/**
 * A routine, prepared on one connection. There is no server to run it, so we do, in a transaction that has the
 * file to itself: locks on rows, and rings, which are for other processes, have no meaning here.
 *
 * Outside a transaction of the session nothing may write: in libsql a `run` that found the file busy stays active, and an
 * autocommit after it is silently undone (tursodatabase/libsql-client-ts#352).
 */
export class Program {
  readonly #routine: Routine;
  readonly #initial: Variables;
  readonly #steps: readonly Step[];
  readonly #query: Prepared | undefined;

  constructor(db: SqliteDatabase, routine: Routine) {
    this.#routine = routine;
    this.#initial = Object.fromEntries(
      localsOf(routine).map((local) => [local, kindOf(local) === "integer" ? 0 : null]),
    );
    for (const step of routine.steps) {
      if (typeof step === "string" || !locks(step)) continue;
      for (const variable of step.into ?? []) this.#initial[variable] = 1;
    }
    this.#steps = routine.steps.flatMap((step) => (typeof step === "string" ? [] : stepsOf(db, step)));
    this.#query = isRow(routine.answer) ? undefined : prepare(db, routine.answer.sql);
  }

  /** The clock is read by whoever began the transaction: while it lasts, nobody else moves anything. */
  run(values: readonly SqlValue[], nowUs: number, wallUs: number): readonly Row[] {
    const variables: Variables = { ...this.#initial, now_us: nowUs, wall_us: wallUs };
    for (const [index, input] of this.#routine.inputs.entries()) variables[input] = plain(values[index]);
    if (this.#query !== undefined) {
      const { statement, takes } = this.#query;
      return statement.all(...valuesOf(takes, variables)) as Row[];
    }
    if (this.#routine.each === undefined) return [this.#pass(variables)];
    const list = JSON.parse(String(variables.list)) as readonly Variables[];
    // One set of variables for all: what is found out for the first of a name, those after it use.
    return list.map((fields) => ({ ...this.#pass(Object.assign(variables, fields)) }));
  }

  #pass(variables: Variables): Variables {
    for (const { statement, takes, into, counts, when, unless } of this.#steps) {
      if (when !== undefined && !variables[when]) continue;
      if (unless !== undefined && variables[unless]) continue;
      if (into === undefined) {
        const { changes } = statement.run(...valuesOf(takes, variables));
        if (counts !== undefined) variables[counts] = changes;
        continue;
      }
      const row = statement.get(...valuesOf(takes, variables)) as readonly SqlValue[] | undefined;
      for (const [index, variable] of into.entries()) variables[variable] = row?.[index] ?? null;
    }
    return variables;
  }
}

/** Done by the transaction already. */
function locks({ sql }: Statement): boolean {
  return /\bFOR UPDATE\b/.test(sql);
}

function stepsOf(db: SqliteDatabase, { sql, into, counts, when, unless }: Statement): readonly Step[] {
  if (locks({ sql })) return [];
  const prepared = prepare(db, sql);
  if (into !== undefined) prepared.statement.raw(true);
  return [{ ...prepared, into, counts, when, unless }];
}

/** Values go by their place and not by their name, which all libraries look up more slowly. */
function prepare(db: SqliteDatabase, source: string): Prepared {
  const takes: string[] = [];
  const text = translated(source).replace(/:([a-z]\w*)/g, (_, variable: string) => {
    takes.push(variable);
    return "?";
  });
  const statement = db.prepare(text);
  // All our integers are exact as numbers; a database that was brought to us may be set to bigint.
  statement.safeIntegers(false);
  return { statement, takes };
}

function valuesOf(takes: readonly string[], variables: Variables): readonly SqlValue[] {
  return takes.map((variable) => variables[variable] ?? null);
}

function plain(value: SqlValue | undefined): SqlValue {
  return typeof value === "bigint" ? Number(value) : (value ?? null);
}

/** What is written for all databases, in the words of this one. */
function translated(source: string): string {
  return withoutComments(source)
    .replace(/@(resources|claims|forced|cells)\b/g, "$1")
    .replaceAll("@wall", ":wall_us")
    .replaceAll("@asked(name, ticket)", ASKED)
    .replace(/@text\(([^()]*(?:\([^()]*\))?[^()]*)\)/g, "CAST($1 AS TEXT)")
    .replace(/@utf8\(([^()]*)\)/g, "$1")
    .replace(/@jsonlist\(([^()]*)\)/g, "json_group_array($1)")
    .replace(/\bgreatest\(/g, "max(")
    .replace(/\bleast\(/g, "min(");
}

const ASKED = `(
  SELECT value ->> 'name' AS name, CAST(value ->> 'ticket' AS INTEGER) AS ticket FROM json_each(:list)
) AS asked`;
