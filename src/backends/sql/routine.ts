/** What a variable holds: a name or an id, compared byte by byte, or a type of SQL. */
export type Kind = "name" | "id" | "text" | "integer" | "bigint";

/** One statement of a routine. */
export interface Statement {
  readonly sql: string;
  /** The variables that its one row fills, in the order of its columns. */
  readonly into?: readonly string[];
  /** The variable that is set to the number of rows it has changed. */
  readonly counts?: string;
  /** Runs only if this variable is not 0, or unless it is. */
  readonly when?: string;
  readonly unless?: string;
}

/** `"clock"` reads the server's clock into `now_us` and `wall_us`; `"ring"` tells those who were let in. */
export type Step = Statement | "clock" | "ring";

/**
 * An operation as it runs on the server: its statements, in one transaction. Written once for all databases;
 * a dialect turns it into a function, a procedure, or a few calls.
 */
export interface Routine {
  readonly name: string;
  /** What is passed in, in this order. */
  readonly inputs: readonly string[];
  /** The clock is read once, and then the steps run for each element of the JSON array `list`, with these fields. */
  readonly each?: readonly string[];
  /** If its answer was lost, it must not simply be asked again: it would be told that there is nothing left to do. */
  readonly onlyOnce?: true;
  /** It only reads, but what a server says that is read-only by now may be out of date: it must refuse. */
  readonly onlyOnPrimary?: true;
  readonly steps: readonly Step[];
  /** What comes out: one row of these variables per run, or the rows of one more statement. */
  readonly answer:
    | readonly string[]
    | { readonly sql: string; readonly columns: Readonly<Record<string, Kind>> };
}

/** Every variable of every routine. */
export const KINDS: Readonly<Record<string, Kind>> = {
  name: "name",
  id: "id",
  asked: "bigint",
  weight: "integer",
  capacity: "integer",
  ttl_us: "bigint",
  fixed: "integer",
  min_hold_us: "bigint",
  queue: "integer",
  capped: "integer",
  max_waiters: "integer",
  owner: "text",
  note: "text",
  bell: "text",
  floor: "bigint",
  now_us: "bigint",
  wall_us: "bigint",
  removed: "integer",
  advanced: "integer",
  waiters: "integer",
  verdict: "text",
  ticket: "bigint",
  granted_us: "bigint",
  deadline_us: "bigint",
  remaining_us: "bigint",
  change_us: "bigint",
  drawn: "bigint",
  occupied: "integer",
  mine: "bigint",
  own_weight: "integer",
  own_capacity: "integer",
  own_fixed: "integer",
  own_min_hold_us: "bigint",
  own_granted_us: "bigint",
  own_deadline_us: "bigint",
  has_left: "integer",
  ahead: "bigint",
  live_capacity: "integer",
  enters: "integer",
  stays: "integer",
  is_gone: "integer",
  catches_up: "integer",
  reason: "text",
  by_whom: "text",
  locked: "integer",
  seized: "bigint",
  ending: "integer",
  victim_bell: "text",
  was_there: "integer",
  removes: "integer",
  ordinary: "integer",
  expired: "integer",
  forced: "integer",
  list: "text",
  first_waiting: "bigint",
  soonest_us: "bigint",
  is_first: "integer",
  is_alone: "integer",
  first: "name",
  most: "integer",
  after: "name",
  last: "name",
  number: "integer",
  forgotten: "integer",
  retention_us: "bigint",
  abandoned: "text",
  expected: "bigint",
  deletes: "integer",
  body: "text",
  keep_us: "bigint",
  found: "bigint",
  written: "integer",
  stores: "integer",
  drops: "integer",
};

export function kindOf(variable: string): Kind {
  const kind = KINDS[variable];
  if (kind === undefined) throw new Error(`no kind is known for ${variable}`);
  return kind;
}

/** All variables that a routine uses besides its inputs. */
export function localsOf({ inputs, each = [], steps, answer }: Routine): readonly string[] {
  const named = steps.flatMap((step) => {
    if (step === "clock") return ["now_us", "wall_us"];
    if (step === "ring") return [];
    return [...(step.into ?? []), ...(step.counts === undefined ? [] : [step.counts])];
  });
  if (each.length > 0) named.push("now_us", "wall_us");
  const answered = isRow(answer) ? answer : [];
  return [...new Set([...each, ...named, ...answered])].filter((variable) => !inputs.includes(variable));
}

export function isRow(answer: Routine["answer"]): answer is readonly string[] {
  return Array.isArray(answer);
}
