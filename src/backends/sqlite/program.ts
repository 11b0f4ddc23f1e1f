import type { Row, SqlValue } from "../sql/driver.js";
import { type Routine, type Step, selectOf } from "../sql/routines.js";
import { type Dialect, translated } from "../sql/translated.js";
import type { SqliteDatabase, SqliteStatement } from "./library.js";

type Values = Record<string, SqlValue>;

/** A statement, and the variables that it takes, in this order. */
interface Prepared {
  readonly statement: SqliteStatement;
  readonly takes: readonly string[];
}

interface PreparedStep extends Prepared {
  readonly into: readonly string[] | undefined;
  readonly counts: string | undefined;
  readonly when: string | undefined;
  readonly unless: string | undefined;
}

/**
 * A routine, prepared on one connection. There is no server to run it, so this process does, in a transaction that
 * has the file to itself: locks on rows have no meaning here, and neither have notifications of other processes.
 *
 * Outside a transaction of the session nothing may write: in libsql a `run` that found the file busy stays active, and an
 * autocommit after it is silently undone (tursodatabase/libsql-client-ts#352).
 */
export class Program {
  readonly #inputs: readonly string[];
  readonly #walksOverList: boolean;
  readonly #initial: Values;
  readonly #steps: readonly PreparedStep[];
  readonly #query: Prepared | undefined;

  constructor(db: SqliteDatabase, routine: Routine) {
    const { inputs, locals, each, steps, query } = routine;
    this.#inputs = Object.keys(inputs);
    this.#walksOverList = each !== undefined;
    this.#initial = Object.fromEntries(
      Object.entries(locals).map(([local, kind]) => [local, kind === "integer" ? 0 : null]),
    );
    // What only locks is done by the transaction already.
    for (const step of steps)
      if ("into" in step && step.locks) for (const variable of step.into) this.#initial[variable] = 1;
    this.#steps = steps.flatMap((step) => stepsOf(db, step));
    this.#query = query === undefined ? undefined : prepare(db, query);
  }

  /** The session that began the transaction has read the clocks: while it lasts, no other process changes anything. */
  run(values: readonly SqlValue[], nowUs: number, wallUs: number): readonly Row[] {
    const variables: Values = { ...this.#initial, now_us: nowUs, wall_us: wallUs };
    for (const [index, input] of this.#inputs.entries()) variables[input] = plain(values[index]);
    if (this.#query !== undefined) {
      const { statement, takes } = this.#query;
      return statement.all(...valuesOf(takes, variables)) as Row[];
    }
    if (!this.#walksOverList) return [this.#pass(variables)];
    const list = JSON.parse(String(variables.list)) as readonly Values[];
    // One set of variables for all: what is found for the first claim of a name, the claims after it use.
    return list.map((fields) => ({ ...this.#pass(Object.assign(variables, fields)) }));
  }

  #pass(variables: Values): Values {
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

function stepsOf(db: SqliteDatabase, step: Step): readonly PreparedStep[] {
  const { when, unless } = step;
  if ("engine" in step) return [];
  if ("sql" in step)
    return [{ ...prepare(db, step.sql), into: undefined, counts: step.counts, when, unless }];
  if ("into" in step && step.locks) return [];
  const [text, into] =
    "into" in step ? [step.select + step.from, step.into] : [selectOf(step), Object.keys(step.values)];
  const prepared = prepare(db, text);
  prepared.statement.raw(true);
  return [{ ...prepared, into, counts: undefined, when, unless }];
}

/** Values go by their place and not by their name, which all libraries look up more slowly. */
function prepare(db: SqliteDatabase, source: string): Prepared {
  const takes: string[] = [];
  const variable = (name: string) => {
    takes.push(name);
    return "?";
  };
  const statement = db.prepare(translated(source, dialectWith(variable)));
  // All our integers are exact as numbers; a database that was brought to us may be set to bigint.
  statement.safeIntegers(false);
  return { statement, takes };
}

function valuesOf(takes: readonly string[], variables: Values): readonly SqlValue[] {
  return takes.map((variable) => variables[variable] ?? null);
}

function plain(value: SqlValue | undefined): SqlValue {
  return typeof value === "bigint" ? Number(value) : (value ?? null);
}

function dialectWith(variable: (name: string) => string): Dialect {
  return {
    table: (name) => name,
    variable,
    wall: () => variable("wall_us"),
    asked: () => `(
  SELECT value ->> 'name' AS name, CAST(value ->> 'ticket' AS INTEGER) AS ticket FROM json_each(${variable("list")})
) AS asked`,
    text: (value) => `CAST(${value} AS TEXT)`,
    utf8: (name) => name,
    jsonlist: (name) => `json_group_array(${name})`,
    rewrites: [
      [/\bgreatest\(/g, "max("],
      [/\bleast\(/g, "min("],
    ],
  };
}
