import {
  isRow,
  type Kind,
  kindOf,
  localsOf,
  type Routine,
  type Statement,
  type Step,
} from "../sql/routine.js";
import { ROUTINES, SCHEMA_VERSION } from "../sql/routines.js";
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
 */
const ATTRIBUTES = [
  "SECURITY DEFINER SET search_path = pg_catalog, pg_temp",
  "SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off",
].join(" ");

const CLOCK =
  "v_now_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;\nv_wall_us := v_now_us;";

export function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}

/** A call of a routine, with one parameter for each of its inputs. */
export function callOf(schema: string, { name, inputs }: Routine): string {
  const values = inputs.map((_, index) => `$${index + 1}`).join(", ");
  return `SELECT * FROM ${quoted(schema)}.${name}(${values})`;
}

/** Everything that the locks need in a database, as a text to read and to run. */
export function migration(schema: string, { withSchema = true } = {}): string {
  const parts = [
    ...(withSchema ? [`CREATE SCHEMA IF NOT EXISTS ${quoted(schema)};`] : []),
    translated(sql.schema, schema),
    functionOf(schema, "ring", "v_name text, v_now_us bigint, v_hint integer", "void", sql.ring),
    ...ROUTINES.map((routine) => routineOf(schema, routine)),
    // Last, because whoever finds it takes everything else for granted.
    functionOf(schema, "version", "", "integer", `BEGIN\n  RETURN ${SCHEMA_VERSION};\nEND`),
  ];
  return `${parts.map((part) => part.trim()).join("\n\n")}\n`;
}

function functionOf(schema: string, name: string, inputs: string, returns: string, body: string): string {
  const text = translated(withoutComments(body), schema).trim();
  return `CREATE OR REPLACE FUNCTION ${quoted(schema)}.${name}(${inputs})
RETURNS ${returns} LANGUAGE plpgsql ${ATTRIBUTES} AS $body$
#variable_conflict use_column
${text}
$body$;`;
}

function routineOf(schema: string, routine: Routine): string {
  const { name, inputs, each, answer } = routine;
  const declared = localsOf(routine).map(
    (local) => `  v_${local} ${TYPES[kindOf(local)]}${kindOf(local) === "integer" ? " := 0" : ""};`,
  );
  const work = [...routine.steps.map((step) => stepOf(schema, routine, step)), answerOf(routine)];
  const lines = each === undefined ? work : loopOver(each, work);
  const body = ["DECLARE", ...declared, "BEGIN", ...lines, "END"].filter((line) => line !== "").join("\n");
  const parameters = inputs.map((input) => `v_${input} ${TYPES[kindOf(input)]}`);
  const columns = isRow(answer)
    ? answer.map((column) => `${column} text`)
    : Object.entries(answer.columns).map(([column, kind]) => `${column} ${TYPES[kind]}`);
  if (!isOneRow(routine))
    return functionOf(schema, name, parameters.join(", "), `TABLE (${columns.join(", ")})`, body);
  const results = columns.map((column) => `OUT ${column}`);
  return functionOf(schema, name, [...parameters, ...results].join(", "), rowType(columns), body);
}

/** A set of rows costs the server more than one row. */
function isOneRow({ each, answer }: Routine): boolean {
  return each === undefined && isRow(answer);
}

function rowType(columns: readonly string[]): string {
  return columns.length === 1 ? "text" : "record";
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
  const ring = (hint: string) => `PERFORM ${quoted(schema)}.ring(v_name, v_now_us, ${hint});`;
  if (name === "claim") return `IF v_expired > 0 THEN\n${ring("0")}\nEND IF;`;
  if (name === "tidy") return ring("0");
  return `IF v_was_there <> 0 THEN
${ring("v_stays")}
END IF;
IF v_forced <> 0 AND v_victim_bell <> '' THEN
PERFORM pg_notify(v_victim_bell, v_ticket || ' ' || v_id || ' ' || CASE
  WHEN octet_length(v_reason) + octet_length(coalesce(v_by_whom, '')) > 3000 THEN 'ask'
  ELSE json_build_object('reason', v_reason, 'by', v_by_whom)::text
END);
END IF;`;
}

function answerOf(routine: Routine): string {
  const { answer } = routine;
  if (!isRow(answer)) return `RETURN QUERY ${withoutComments(answer.sql).trim()};`;
  const filled = answer.map((column) => `${column} := v_${column}::text;`);
  return [...filled, ...(isOneRow(routine) ? [] : ["RETURN NEXT;"])].join("\n");
}

/** What is written for all databases, in the words of this one. */
function translated(source: string, schema: string): string {
  return source
    .replace(/@(resources|claims|forced)\b/g, (_, table: string) => `${quoted(schema)}.${table}`)
    .replaceAll("@wall", "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    .replaceAll("@asked(name, ticket)", "json_to_recordset(v_list::json) AS asked (name text, ticket bigint)")
    .replace(/@text\(([^()]*(?:\([^()]*\))?[^()]*)\)/g, "($1)::text")
    .replace(/@utf8\(([^()]*)\)/g, "$1")
    .replace(/@jsonlist\(([^()]*)\)/g, "json_agg($1)::text")
    .replace(/(?<!:):([a-z_]+)\b/g, "v_$1");
}
