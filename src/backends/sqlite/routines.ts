import type { Row } from "../sql/link.js";
import { isRow, type Routine, type Statement } from "../sql/routine.js";
import { withoutComments } from "../sql/text.js";
import type { SqliteDatabase, SqliteStatement } from "./statements.js";

type Variables = Record<string, unknown>;

/** The moment of a step: the machine's clock for expiry, and the wall clock for tickets. */
export interface Times {
  readonly nowUs: number;
  readonly wallUs: number;
}

interface Prepared extends Statement {
  readonly statement: SqliteStatement;
  /** The variables that it reads. */
  readonly reads: readonly string[];
}

/**
 * Runs the routines that all databases share, statement by statement. To be called inside a transaction that
 * may write: it stands for the lock of a name's row.
 */
export class Routines {
  readonly #prepare: (source: string) => SqliteStatement;
  readonly #prepared = new Map<Routine, readonly Prepared[]>();

  constructor(db: SqliteDatabase) {
    this.#prepare = (source) => {
      const statement = db.prepare(source);
      // All our integers are exact as numbers; a database that was brought to us may be set to bigint.
      statement.safeIntegers(false);
      return statement;
    };
  }

  /** What its variables hold in the end. */
  run(routine: Routine, inputs: Readonly<Variables>, { nowUs, wallUs }: Times): Row {
    const variables: Variables = { ...inputs, now_us: nowUs, wall_us: wallUs };
    for (const step of this.#stepsOf(routine)) {
      if (step.when !== undefined && !variables[step.when]) continue;
      if (step.unless !== undefined && variables[step.unless]) continue;
      this.#perform(step, variables);
    }
    return variables;
  }

  #perform({ statement, reads, into, counts }: Prepared, variables: Variables): void {
    const bound: Variables = {};
    for (const name of reads) bound[name] = variables[name] ?? null;
    if (into === undefined) {
      const { changes } = statement.run(bound);
      if (counts !== undefined) variables[counts] = changes;
      return;
    }
    const row = statement.get(bound) as Variables | undefined;
    for (const name of into) variables[name] = row?.[name] ?? null;
  }

  #stepsOf(routine: Routine): readonly Prepared[] {
    const known = this.#prepared.get(routine);
    if (known !== undefined) return known;
    if (!isRow(routine.answer)) throw new Error(`${routine.name} is not for SQLite`);
    // The clock is read by whoever calls, and nobody can be rung from here.
    const steps = routine.steps.filter((step): step is Statement => typeof step === "object");
    const prepared = steps.map((step) => {
      const source = translated(step.sql);
      const reads = [...new Set(Array.from(source.matchAll(/:([a-z_]+)/g), ([, name = ""]) => name))];
      return { ...step, statement: this.#prepare(source), reads };
    });
    this.#prepared.set(routine, prepared);
    return prepared;
  }
}

/** What is written for all databases, in the words of SQLite. Its claims have no bell. */
function translated(source: string): string {
  return withoutComments(source)
    .replace(/@(resources|claims|forced)\b/g, "$1")
    .replaceAll("@wall", ":wall_us")
    .replace(/\bgreatest\(/g, "max(")
    .replace(/\bleast\(/g, "min(")
    .replace(/@jsonlist\(([^()]*)\)/g, "json_group_array($1)")
    .replace(/ FOR UPDATE\b/, "")
    .replace(/,\s*bell = :bell/, "")
    .replace(/, :?bell\b/g, "")
    .replace("coalesce(max(bell), '')", "''");
}
