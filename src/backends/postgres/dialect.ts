import { partOf } from "../../core/shape.js";
import { listIn } from "../../engine-kit/reply.js";
import type { Row } from "../sql/connection.js";
import { readBy, textOf } from "../sql/replies.js";
import {
  isRow,
  type Kind,
  kindOf,
  localsOf,
  type Routine,
  type Statement,
  type Step,
} from "../sql/routine.js";
import { BREAKING, REVISION, ROUTINES, routineName } from "../sql/routines.js";
import { withoutComments } from "../sql/text.js";
import { sql } from "./sql.generated.js";

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
 * The server does not notice that somebody has given up and left: without a limit of its own, each retry at a
 * row that is locked for long would leave one more process waiting there, until no connection is left for anybody.
 */
const ATTRIBUTES = [
  "SECURITY DEFINER SET search_path = pg_catalog, pg_temp",
  "SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET lock_timeout = '5s'",
].join(" ");

const CLOCK =
  "v_now_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;\nv_wall_us := v_now_us;";

/** What the server itself says to each routine that writes. */
const REFUSE_IF_READ_ONLY = `IF current_setting('transaction_read_only') = 'on' THEN
RAISE EXCEPTION 'what this server knows of the locks may be out of date' USING ERRCODE = '25006';
END IF;`;

export function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}

/** A call of a routine, with one parameter for each of its inputs. */
export function callOf(schema: string, { name, inputs, answer }: Routine): string {
  const values = inputs.map((_, index) => `$${index + 1}`).join(", ");
  const call = `${quoted(schema)}.${routineName(name)}(${values})`;
  return isRow(answer) ? `SELECT ${call} AS answer` : `SELECT * FROM ${call}`;
}

/** What a call brings, in order. */
export function columnsOf({ answer }: Routine): readonly string[] {
  return isRow(answer) ? ["answer"] : Object.keys(answer.columns);
}

/** Between the parts of an answer. It is in none of them: texts are JSON. */
const SEPARATOR = "\u001f";

/** The rows that a call has brought. */
export function rowsOf({ answer }: Routine, result: { readonly rows: unknown }): readonly Row[] {
  const rows = readBy(listIn, partOf(result, "rows")) as readonly Row[];
  if (!isRow(answer)) return rows;
  return rows.map((row) => {
    const parts = textOf(row, "answer").split(SEPARATOR);
    return Object.fromEntries(answer.map((column, index) => [column, parts[index] || null]));
  });
}

/** Everything that the locks need in a database, as a text to read and to run. */
export function migration(schema: string, { withSchema = true } = {}): string {
  const parts = [
    ...(withSchema ? [`CREATE SCHEMA IF NOT EXISTS ${quoted(schema)};`] : []),
    translated(sql.schema, schema),
    // Called by the others only, with their rights and settings.
    functionOf(schema, "ring", "v_name text, v_now_us bigint, v_hint integer", "void", sql.notify, ""),
    ...ROUTINES.map((routine) => routineOf(schema, routine)),
    translated(
      `INSERT INTO @revisions VALUES (${REVISION}, ${BREAKING}) ON CONFLICT (revision) DO NOTHING;`,
      schema,
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
  const text = translated(withoutComments(body), schema).trim();
  return `CREATE OR REPLACE FUNCTION ${quoted(schema)}.${routineName(name)}(${inputs})
RETURNS ${returns} LANGUAGE plpgsql ${attributes} AS $body$
#variable_conflict use_column
${text}
$body$;`;
}

function routineOf(schema: string, routine: Routine): string {
  const { name, inputs, each } = routine;
  const declared = localsOf(routine).map(
    (local) => `  v_${local} ${TYPES[kindOf(local)]}${kindOf(local) === "integer" ? " := 0" : ""};`,
  );
  const work = [
    ...(routine.onlyOnPrimary === true ? [REFUSE_IF_READ_ONLY] : []),
    ...routine.steps.map((step) => stepOf(schema, routine, step)),
    answerOf(routine),
  ];
  const lines = each === undefined ? work : loopOver(each, work);
  const body = ["DECLARE", ...declared, "BEGIN", ...lines, "END"].filter((line) => line !== "").join("\n");
  const parameters = inputs.map((input) => `v_${input} ${TYPES[kindOf(input)]}`).join(", ");
  return functionOf(schema, name, parameters, resultOf(routine), body);
}

function resultOf({ each, answer }: Routine): string {
  // One text costs less than a row of many, on its way and at both ends of it.
  if (isRow(answer)) return each === undefined ? "text" : "SETOF text";
  const columns = Object.entries(answer.columns).map(([column, kind]) => `${column} ${TYPES[kind]}`);
  return `TABLE (${columns.join(", ")})`;
}

function loopOver(fields: readonly string[], work: readonly string[]): readonly string[] {
  const types = fields.map((field) => `${field} ${TYPES[kindOf(field)]}`).join(", ");
  const into = fields.map((field) => `v_${field}`).join(", ");
  const list = `SELECT asked.* FROM json_to_recordset(v_list::json) AS asked (${types})`;
  return [CLOCK, `FOR ${into} IN ${list} LOOP`, ...work, "END LOOP;"];
}

function stepOf(schema: string, routine: Routine, step: Step): string {
  if (step === "clock") return CLOCK;
  if (step === "ring") return ringOf(schema, routine);
  const { when, unless } = step;
  const text = `${statementOf(step)};${counting(step)}`;
  if (when !== undefined) return `IF v_${when} <> 0 THEN\n${text}\nEND IF;`;
  return unless === undefined ? text : `IF v_${unless} = 0 THEN\n${text}\nEND IF;`;
}

function statementOf({ sql: source, into }: Statement): string {
  const text = withoutComments(source).trim();
  if (into === undefined) return text;
  if (!/\bFROM\b/.test(text)) return assignments(text, into);
  const variables = into.map((variable) => `v_${variable}`).join(", ");
  return text.endsWith("FOR UPDATE") ? `${text} INTO ${variables}` : `${text}\nINTO ${variables}`;
}

/** What needs no table is no query: an expression costs the server a tenth of it. */
function assignments(select: string, into: readonly string[]): string {
  let rest = select.replace(/^SELECT/, "");
  const set = into.map((variable) => {
    const [expression = "", ...more] = rest.split(new RegExp(`\\bAS ${variable}\\b,?`));
    rest = more.join("");
    return `v_${variable} := ${expression.trim()}`;
  });
  return set.join(";\n");
}

function counting({ counts }: Statement): string {
  return counts === undefined ? "" : `\nGET DIAGNOSTICS v_${counts} = ROW_COUNT;`;
}

/** Whoever leaves, or has run out, may let others in. And who was taken away is told. */
function ringOf(schema: string, { name }: Routine): string {
  const ring = (hint: string) =>
    `PERFORM ${quoted(schema)}.${routineName("ring")}(v_name, v_now_us, ${hint});`;
  if (name === "claim") return `IF v_removed > 0 THEN\n${ring("0")}\nEND IF;`;
  if (name === "tidy") return ring("0");
  // A question costs less than a call, and mostly nobody waits.
  return `IF v_was_there <> 0 AND EXISTS (SELECT 1 FROM @claims WHERE name = v_name) THEN
${ring("v_stays")}
END IF;
IF v_forced <> 0 AND v_victim_bell <> '' THEN
PERFORM pg_notify(v_victim_bell, v_ticket || ' ' || v_id || ' ' || CASE
  WHEN octet_length(v_reason) + octet_length(coalesce(v_by_whom, '')) > 3000 THEN 'ask'
  ELSE json_build_object('reason', v_reason, 'by', v_by_whom)::text
END);
END IF;`;
}

function answerOf({ each, answer }: Routine): string {
  if (!isRow(answer)) return `RETURN QUERY ${withoutComments(answer.sql).trim()};`;
  const parts = answer.map((column) => `v_${column}`).join(", chr(31), ");
  return `RETURN ${each === undefined ? "" : "NEXT "}concat(${parts});`;
}

/** What is written for all databases, in the words of this one. */
function translated(source: string, schema: string): string {
  return source
    .replace(
      /@(resources|claims|forced|cells|revisions)\b/g,
      (_, table: string) => `${quoted(schema)}.${table}`,
    )
    .replaceAll("@wall", "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    .replaceAll("@asked(name, ticket)", "json_to_recordset(v_list::json) AS asked (name text, ticket bigint)")
    .replace(/@text\(([^()]*(?:\([^()]*\))?[^()]*)\)/g, "($1)::text")
    .replace(/@utf8\(([^()]*)\)/g, "$1")
    .replace(/@jsonlist\(([^()]*)\)/g, "json_agg($1)::text")
    .replace(/(?<!:):([a-z_]+)\b/g, "v_$1");
}
