import type { Row } from "../sql/replies.js";
import {
  type Dialect,
  type Routine,
  type SqlValue,
  type Step,
  selectOf,
  translated,
} from "../sql/routines.js";
import { isBusy, otherBoot } from "./errors.js";
import { isInTransaction, type SqliteDatabase, type SqliteStatement } from "./library.js";
import { identityOf, type MachineClock, wallUs } from "./system.js";

/** One open connection. Its methods are synchronous: nothing else of this process comes in between. */
export class Session {
  /** Not to be used again. */
  broken = false;
  readonly #db: SqliteDatabase;
  readonly #programs = new Map<Routine, Program>();
  readonly #boot: SqliteStatement;
  readonly #clock: MachineClock;
  readonly #identity: string | undefined;

  constructor(
    db: SqliteDatabase,
    clock: MachineClock,
    /** Where the file lies; `undefined` if it is in memory. */
    readonly file: string | undefined,
    /** Which file that is. */
    identity: string | undefined,
  ) {
    this.#db = db;
    this.#clock = clock;
    this.#boot = db.prepare("SELECT boot FROM machine");
    this.#identity = identity;
  }

  get inTransaction(): boolean {
    return isInTransaction(this.#db);
  }

  close(): void {
    this.#db.close();
  }

  /** One atomic step. What is answered by a query changes nothing, and others may write meanwhile. */
  call(routine: Routine, values: readonly SqlValue[]): readonly Row[] {
    return routine.query === undefined ? this.#transact(routine, values) : this.#read(routine, values);
  }

  #transact(routine: Routine, values: readonly SqlValue[]): readonly Row[] {
    // Not prepared: libsql would leave the statement active if the file is busy (see `programOf`).
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      const { boot } = this.#boot.get() as { readonly boot: string };
      if (boot !== this.#clock.boot) throw otherBoot();
      const rows = this.#run(routine, values);
      this.#db.exec("COMMIT");
      return rows;
    } catch (error) {
      this.#rollBack();
      throw error;
    }
  }

  #read(routine: Routine, values: readonly SqlValue[]): readonly Row[] {
    try {
      return this.#run(routine, values);
    } catch (error) {
      // The statement may have stayed active and would hold on to what it saw: better to open anew.
      if (isBusy(error)) this.broken = true;
      throw error;
    }
  }

  /** The time is read inside the transaction, so that times never go back from one step to the next. */
  #run(routine: Routine, values: readonly SqlValue[]): readonly Row[] {
    let program = this.#programs.get(routine);
    if (program === undefined) {
      program = programOf(this.#db, routine);
      this.#programs.set(routine, program);
    }
    return program(values, this.#clock.nowUs(), wallUs());
  }

  #rollBack(): void {
    try {
      // Some failures have rolled back already.
      if (isInTransaction(this.#db)) this.#db.exec("ROLLBACK");
    } catch {
      // The first error is the one to tell; a connection in this state is not used again.
      this.broken = true;
    }
  }

  /** Whether the file that we have open is still the one that others find: a deleted one excludes no other process. */
  isCurrent(): boolean {
    return identityOf(this.file) === this.#identity;
  }
}

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

type Program = (values: readonly SqlValue[], nowUs: number, wallUs: number) => readonly Row[];

/**
 * A routine, prepared on one connection. There is no server to run it, so this process does, in a transaction that
 * has the file to itself: locks on rows have no meaning here, and neither have notifications of other processes. The
 * session that began the transaction has read the clocks: while it lasts, no other process changes anything.
 *
 * Outside a transaction of the session nothing may write: in libsql a `run` that found the file busy stays active, and an
 * autocommit after it is silently undone (tursodatabase/libsql-client-ts#352).
 */
function programOf(db: SqliteDatabase, routine: Routine): Program {
  const { locals, each, steps: written } = routine;
  const inputs = Object.keys(routine.inputs);
  const initial: Values = Object.fromEntries(
    Object.entries(locals).map(([local, kind]) => [local, kind === "integer" ? 0 : null]),
  );
  // What only locks is done by the transaction already.
  for (const step of written)
    if ("into" in step && step.locks) for (const variable of step.into) initial[variable] = 1;
  const steps = written.flatMap((step) => stepsOf(db, step));
  const query = routine.query === undefined ? undefined : prepare(db, routine.query);
  return (values, nowUs, wallUs) => {
    const variables: Values = { ...initial, now_us: nowUs, wall_us: wallUs };
    for (const [index, input] of inputs.entries()) variables[input] = plain(values[index]);
    if (query !== undefined) return query.statement.all(...valuesOf(query.takes, variables)) as Row[];
    if (each === undefined) return [pass(steps, variables)];
    const list = JSON.parse(String(variables.list)) as readonly Values[];
    // One set of variables for all: what is found for the first claim of a name, the claims after it use.
    return list.map((fields) => ({ ...pass(steps, Object.assign(variables, fields)) }));
  };
}

function pass(steps: readonly PreparedStep[], variables: Values): Values {
  for (const { statement, takes, into, counts, when, unless } of steps) {
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
  // All our integers are exact as numbers; a database of the caller's may be set to bigint.
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
