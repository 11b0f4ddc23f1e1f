import { partOf } from "../../core/errors.js";
import { listIn } from "../../engine-kit/reply.js";
import type { Row } from "../sql/driver.js";
import { readBy, textOf } from "../sql/replies.js";
import {
  BREAKING,
  type Kind,
  REVISION,
  ROUTINES,
  type Routine,
  routineName,
  type Step,
  type Variables,
} from "../sql/routines.js";
import { type Dialect, translated } from "../sql/translated.js";
import { sections, sql } from "./sql.generated.js";

const TYPES: Readonly<Record<Kind, string>> = {
  name: "text",
  id: "text",
  text: "text",
  integer: "integer",
  bigint: "bigint",
};

/**
 * Functions do what only their owner may do, so that users need no right but to call them. Their plans must use
 * the indexes, also while the tables look small: claims come and go faster than statistics follow. Where there
 * is no index to use, such a plan looks so expensive that the server would compile it, for 300 ms each time.
 * The server does not notice that a client has given up and left: without a limit of its own, each retry at a row
 * that is locked for long would leave one more server process waiting there, until no connection is left.
 */
const ATTRIBUTES = [
  "SECURITY DEFINER SET search_path = pg_catalog, pg_temp",
  "SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET lock_timeout = '5s'",
].join(" ");

export function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}

/** A call of a routine, with one parameter for each of its inputs. */
export function callOf(schema: string, { name, inputs, query }: Routine): string {
  const values = Object.keys(inputs).map((_, index) => `$${index + 1}`);
  const call = `${quoted(schema)}.${routineName(name)}(${values.join(", ")})`;
  return query === undefined ? `SELECT ${call} AS answer` : `SELECT * FROM ${call}`;
}

/** What a call brings, in order. */
export function columnsOf({ columns, query }: Routine): readonly string[] {
  return query === undefined ? ["answer"] : Object.keys(columns);
}

/** Between the parts of an answer. It is in none of them: texts are JSON. */
const SEPARATOR = "\u001f";

/** The rows that a call has brought. */
export function rowsOf(routine: Routine, result: { readonly rows: unknown }): readonly Row[] {
  const rows = readBy(listIn, partOf(result, "rows")) as readonly Row[];
  if (routine.query !== undefined) return rows;
  const columns = Object.keys(routine.columns);
  return rows.map((row) => {
    const parts = textOf(row, "answer").split(SEPARATOR);
    return Object.fromEntries(columns.map((column, index) => [column, parts[index] || null]));
  });
}

/** Everything that the locks need in a database, as a text to read and to run. */
export function migration(schema: string, { withSchema = true } = {}): string {
  const parts = [
    ...(withSchema ? [`CREATE SCHEMA IF NOT EXISTS ${quoted(schema)};`] : []),
    translated(sql.schema, dialectOf(schema)),
    // Called by the others only, with their rights and settings.
    functionOf(schema, "ring", "v_name text, v_now_us bigint, v_hint integer", "void", sections.ring, ""),
    ...ROUTINES.map((routine) => routineOf(schema, routine)),
    translated(
      `INSERT INTO @revisions VALUES (${REVISION}, ${BREAKING}) ON CONFLICT (revision) DO NOTHING;`,
      dialectOf(schema),
    ),
    // Last, because a process that finds it takes everything else for granted.
    functionOf(
      schema,
      "breaking",
      "",
      "integer",
      "BEGIN\n  RETURN (SELECT coalesce(max(breaking), 0) FROM @revisions);\nEND",
    ),
  ];
  return `${parts.map((part) => part.trim()).join("\n\n")}\n`;
}

function functionOf(
  schema: string,
  name: string,
  inputs: string,
  returns: string,
  body: string,
  attributes = ATTRIBUTES,
): string {
  const text = translated(body, dialectOf(schema)).trim();
  return `CREATE OR REPLACE FUNCTION ${quoted(schema)}.${routineName(name)}(${inputs})
RETURNS ${returns} LANGUAGE plpgsql ${attributes} AS $body$
#variable_conflict use_column
${text}
$body$;`;
}

function routineOf(schema: string, routine: Routine): string {
  const { name, inputs, each, before = [], steps } = routine;
  const declared = Object.entries(routine.locals).map(
    ([local, kind]) => `  v_${local} ${TYPES[kind]}${kind === "integer" ? " := 0" : ""};`,
  );
  const work = [
    ...(routine.onlyOnPrimary === true ? [sections["refuse-if-read-only"]] : []),
    ...steps.map(stepOf),
    answerOf(routine),
  ];
  const lines = each === undefined ? work : [...before.map(stepOf), ...loopOver(each, work)];
  const body = ["DECLARE", ...declared, "BEGIN", ...lines, "END"].join("\n");
  return functionOf(schema, name, listed(inputs, "v_"), resultOf(routine), body);
}

/** Names and types, for parameters and columns. */
function listed(variables: Variables, prefix = ""): string {
  const pairs = Object.entries(variables).map(([name, kind]) => `${prefix}${name} ${TYPES[kind]}`);
  return pairs.join(", ");
}

function resultOf({ each, columns, query }: Routine): string {
  if (query !== undefined) return `TABLE (${listed(columns)})`;
  // One text costs less than a row of many, on its way and at both ends of it.
  return each === undefined ? "text" : "SETOF text";
}

function loopOver(fields: Variables, work: readonly string[]): readonly string[] {
  const into = Object.keys(fields).map((field) => `v_${field}`);
  return [`FOR ${into.join(", ")} IN SELECT asked.* FROM ${listOf(fields)} LOOP`, ...work, "END LOOP;"];
}

/** The elements of `list`, as a table. */
function listOf(fields: Variables): string {
  return `json_to_recordset(v_list::json) AS asked (${listed(fields)})`;
}

function stepOf(step: Step): string {
  const { when, unless } = step;
  const text = statementOf(step);
  if (when !== undefined) return `IF v_${when} <> 0 THEN\n${text}\nEND IF;`;
  return unless === undefined ? text : `IF v_${unless} = 0 THEN\n${text}\nEND IF;`;
}

function statementOf(step: Step): string {
  if ("engine" in step) return sections[step.engine];
  if ("into" in step) {
    const variables = step.into.map((variable) => `v_${variable}`);
    return `${step.select}${step.from}\nINTO ${variables.join(", ")};`;
  }
  // What needs no table is no query: an expression costs the server a tenth of it.
  if ("values" in step) {
    const set = Object.entries(step.values).map(
      ([variable, expression]) => `v_${variable} := ${expression};`,
    );
    return set.join("\n");
  }
  return `${step.sql};${step.counts === undefined ? "" : `\nGET DIAGNOSTICS v_${step.counts} = ROW_COUNT;`}`;
}

function answerOf({ each, columns, query }: Routine): string {
  if (query !== undefined) return `RETURN QUERY ${query};`;
  const parts = Object.keys(columns).map((column) => `v_${column}`);
  return `RETURN ${each === undefined ? "" : "NEXT "}concat(${parts.join(", chr(31), ")});`;
}

function dialectOf(schema: string): Dialect {
  return {
    table: (name) => `${quoted(schema)}.${name}`,
    routine: (name) => `${quoted(schema)}.${routineName(name)}`,
    variable: (name) => `v_${name}`,
    wall: () => "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    asked: () => listOf({ name: "name", ticket: "bigint" }),
    text: (value) => `(${value})::text`,
    utf8: (name) => name,
    jsonlist: (name) => `json_agg(${name})::text`,
  };
}
