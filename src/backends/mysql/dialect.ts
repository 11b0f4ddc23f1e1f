import type { Row } from "../sql/driver.js";
import {
  BREAKING,
  type Kind,
  REVISION,
  ROUTINES,
  type Routine,
  routineName,
  type Step,
  selectOf,
  type Variables,
} from "../sql/routines.js";
import { type Dialect, translated } from "../sql/translated.js";
import { sections, sql } from "./sql.generated.js";

const TYPES: Readonly<Record<Kind, string>> = {
  name: "VARBINARY(255)",
  id: "VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin",
  text: "LONGTEXT CHARACTER SET utf8mb4",
  integer: "INT",
  bigint: "BIGINT",
};

/** In UTC, whatever the time zone of the connection. It is the time of the statement, so it stands in one of its own. */
const CLOCK = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))";

/** Routines keep the modes in which they were made: what does not fit must be an error. */
const MODES = ["SET NAMES utf8mb4", "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"];

export function quoted(identifier: string): string {
  return `\`${identifier.replaceAll("`", "``")}\``;
}

/** What a procedure of this release is called. */
export function procedureName(prefix: string, name: string): string {
  return quoted(`${prefix}_${routineName(name)}`);
}

export function callOf(prefix: string, { name, inputs }: Routine): string {
  const values = Object.keys(inputs).map(() => "?");
  return `CALL ${procedureName(prefix, name)}(${values.join(", ")})`;
}

/** A query answers with rows; a call with a list of sets of rows, and a header at the end. */
export function rowsOf(results: unknown): readonly Row[] {
  if (!Array.isArray(results)) return [];
  const sets = results.filter((set): set is Row[] => Array.isArray(set));
  return sets.length > 0 ? sets.flat() : (results as Row[]);
}

/** Everything that the locks need in a database, one statement after the other. */
export function statements(prefix: string): readonly string[] {
  const tables = translated(sql.schema, dialectOf(prefix))
    .split(";\n")
    .map((table) => table.trim())
    .filter((table) => table !== "");
  return [
    ...MODES,
    ...tables,
    ...ROUTINES.flatMap((routine) =>
      procedureOf(prefix, routine.name, parametersOf(routine), bodyOf(routine)),
    ),
    translated(`INSERT IGNORE INTO @revisions VALUES (${REVISION}, ${BREAKING})`, dialectOf(prefix)),
    // Last, because a process that finds it takes everything else for granted.
    ...procedureOf(prefix, "breaking", "", [
      "SELECT coalesce(max(breaking), 0) AS breaking FROM @revisions;",
      "COMMIT;",
    ]),
  ];
}

/** The same as a text to read, and to be run by the command line client. */
export function migration(prefix: string): string {
  return `DELIMITER $$\n\n${statements(prefix).join("\n$$\n\n")}\n$$\n\nDELIMITER ;\n`;
}

function procedureOf(
  prefix: string,
  name: string,
  parameters: string,
  body: readonly string[],
): readonly string[] {
  const procedure = procedureName(prefix, name);
  const text = translated(body.join("\n"), dialectOf(prefix));
  return [
    `DROP PROCEDURE IF EXISTS ${procedure}`,
    `CREATE PROCEDURE ${procedure}(${parameters})\nMODIFIES SQL DATA\nBEGIN\n${text}\nEND`,
  ];
}

function parametersOf({ inputs }: Routine): string {
  return Object.entries(inputs)
    .map(([input, kind]) => `IN v_${input} ${TYPES[kind]}`)
    .join(", ");
}

function bodyOf(routine: Routine): readonly string[] {
  const { each, before = [], steps, columns, query } = routine;
  const locals = Object.entries(routine.locals).map(([local, kind]) => {
    return `DECLARE v_${local} ${TYPES[kind]}${kind === "integer" ? " DEFAULT 0" : ""};`;
  });
  const refusal = sections["refuse-if-read-only"];
  const work = steps.flatMap(stepOf);
  // Where autocommit is off, a look begins a transaction, too: left open, it would show the same old rows again.
  if (query !== undefined)
    return [...locals, ...(routine.onlyOnPrimary === true ? [refusal] : []), ...work, `${query};`, "COMMIT;"];
  const begin = [refusal, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;", "START TRANSACTION;"];
  // What was begun must not be left to the next user of the connection.
  const handler = "DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;";
  if (each === undefined) return [...locals, handler, ...begin, ...work, "COMMIT;", answerOf(columns)];
  const fields = Object.keys(each);
  return [
    "DECLARE v_is_over INT DEFAULT 0;",
    ...locals,
    `DECLARE asked_cursor CURSOR FOR SELECT ${fields.join(", ")} FROM ${listOf(each)};`,
    "DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_is_over = 1;",
    handler,
    ...begin,
    ...before.flatMap(stepOf),
    "OPEN asked_cursor;",
    "every: LOOP",
    "SET v_is_over = 0;",
    `FETCH asked_cursor INTO ${fields.map((field) => `v_${field}`).join(", ")};`,
    "IF v_is_over = 1 THEN LEAVE every; END IF;",
    ...work,
    answerOf(columns),
    "END LOOP;",
    "CLOSE asked_cursor;",
    "COMMIT;",
  ];
}

/** The elements of `list`, as a table. */
function listOf(fields: Variables): string {
  const columns = Object.entries(fields).map(([field, kind]) => {
    const type = kind === "name" ? "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin" : TYPES[kind];
    return `${field} ${type} PATH '$.${field}'`;
  });
  return `JSON_TABLE(v_list, '$[*]' COLUMNS (${columns.join(", ")})) AS asked`;
}

function stepOf(step: Step): readonly string[] {
  const { when, unless } = step;
  const lines = statementOf(step);
  if (when !== undefined) return [`IF v_${when} <> 0 THEN`, ...lines, "END IF;"];
  return unless === undefined ? lines : [`IF v_${unless} = 0 THEN`, ...lines, "END IF;"];
}

function statementOf(step: Step): readonly string[] {
  if ("engine" in step) return sections[step.engine] === "" ? [] : [sections[step.engine]];
  if ("sql" in step)
    return [`${step.sql};`, ...(step.counts === undefined ? [] : [`SET v_${step.counts} = ROW_COUNT();`])];
  if ("values" in step) return filled(Object.keys(step.values), (into) => `${selectOf(step)} ${into};`);
  return filled(step.into, (into) => `${step.select}${into} ${step.from};`);
}

/** Where no row is found, variables keep what they held: so they are cleared first. */
function filled(names: readonly string[], select: (into: string) => string): readonly string[] {
  const variables = names.map((name) => `v_${name}`);
  return [
    `SET ${variables.map((variable) => `${variable} = NULL`).join(", ")};`,
    select(`INTO ${variables.join(", ")}`),
  ];
}

function answerOf(columns: Variables): string {
  const values = Object.entries(columns).map(([column, kind]) => {
    const value = kind === "name" ? `CONVERT(v_${column} USING utf8mb4)` : `CAST(v_${column} AS CHAR)`;
    return `${kind === "text" ? `v_${column}` : value} AS ${column}`;
  });
  return `SELECT ${values.join(", ")};`;
}

function dialectOf(prefix: string): Dialect {
  return {
    table: (name) => quoted(`${prefix}_${name}`),
    variable: (name) => `v_${name}`,
    wall: () => CLOCK,
    asked: () => listOf({ name: "name", ticket: "bigint" }),
    text: (value) => `CAST(${value} AS CHAR)`,
    utf8: (name) => `CONVERT(${name} USING utf8mb4)`,
    jsonlist: (name) => `JSON_ARRAYAGG(CONVERT(${name} USING utf8mb4))`,
    rewrites: [
      [/ON CONFLICT \(\w+\) DO UPDATE SET/g, "ON DUPLICATE KEY UPDATE"],
      [/\bexcluded\.(\w+)/g, "VALUES($1)"],
    ],
  };
}
