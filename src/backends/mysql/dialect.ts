import type { Row } from "../sql/connection.js";
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
  name: "VARBINARY(255)",
  id: "VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin",
  text: "LONGTEXT CHARACTER SET utf8mb4",
  integer: "INT",
  bigint: "BIGINT",
};

/** In UTC, whatever the time zone of the connection. It is that of the statement, so it stands in one of its own. */
const CLOCK = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))";

const READ_CLOCK = [`SET v_now_us = ${CLOCK};`, "SET v_wall_us = v_now_us;"];

/** Routines keep the modes in which they were made: what does not fit must be an error. */
const MODES = ["SET NAMES utf8mb4", "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"];

/**
 * Routines work in the name of whoever made them; if that is somebody who may write on a read-only server, they
 * would go on granting locks on a primary that has just been made a replica.
 */
const REFUSE_IF_READ_ONLY = [
  // A word instead of a number in newer versions of MariaDB.
  "IF CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF') THEN",
  "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'no lock can be changed here';",
  "END IF;",
];

export function quoted(identifier: string): string {
  return `\`${identifier.replaceAll("`", "``")}\``;
}

/** What a procedure of this release is called. */
export function procedureName(prefix: string, name: string): string {
  return quoted(`${prefix}_${routineName(name)}`);
}

export function callOf(prefix: string, { name, inputs }: Routine): string {
  return `CALL ${procedureName(prefix, name)}(${inputs.map(() => "?").join(", ")})`;
}

/** A query answers with rows; a call with a list of sets of rows, and a header at the end. */
export function rowsOf(results: unknown): readonly Row[] {
  if (!Array.isArray(results)) return [];
  const sets = results.filter((set): set is Row[] => Array.isArray(set));
  return sets.length > 0 ? sets.flat() : (results as Row[]);
}

/** Everything that the locks need in a database, one statement after the other. */
export function statements(prefix: string): readonly string[] {
  const tables = translated(sql.schema, prefix)
    .split(";\n")
    .map((table) => table.trim())
    .filter((table) => table !== "");
  return [
    ...MODES,
    ...tables,
    ...ROUTINES.flatMap((routine) =>
      procedureOf(prefix, routine.name, parametersOf(routine), bodyOf(routine)),
    ),
    translated(`INSERT IGNORE INTO @revisions VALUES (${REVISION}, ${BREAKING})`, prefix),
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
  const text = translated(body.join("\n"), prefix);
  return [
    `DROP PROCEDURE IF EXISTS ${procedure}`,
    `CREATE PROCEDURE ${procedure}(${parameters})\nMODIFIES SQL DATA\nBEGIN\n${text}\nEND`,
  ];
}

function parametersOf({ inputs }: Routine): string {
  return inputs.map((input) => `IN v_${input} ${TYPES[kindOf(input)]}`).join(", ");
}

function bodyOf(routine: Routine): readonly string[] {
  const { each, steps, answer } = routine;
  const locals = localsOf(routine).map((local) => {
    const initial = kindOf(local) === "integer" ? " DEFAULT 0" : "";
    return `DECLARE v_${local} ${TYPES[kindOf(local)]}${initial};`;
  });
  const work = steps.flatMap(stepOf);
  // Where autocommit is off, a look begins a transaction, too: left open, it would show the same old rows again.
  if (!isRow(answer)) {
    const refusal = routine.onlyOnPrimary === true ? REFUSE_IF_READ_ONLY : [];
    return [...locals, ...refusal, ...work, `${withoutComments(answer.sql).trim()};`, "COMMIT;"];
  }
  const begin = [
    ...REFUSE_IF_READ_ONLY,
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;",
    "START TRANSACTION;",
  ];
  // What was begun must not be left to whoever uses the connection next.
  const handler = "DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;";
  if (each === undefined) return [...locals, handler, ...begin, ...work, "COMMIT;", answerOf(answer)];
  return [
    "DECLARE v_is_over INT DEFAULT 0;",
    ...locals,
    cursorOver(each),
    "DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_is_over = 1;",
    handler,
    ...begin,
    ...READ_CLOCK,
    "OPEN asked_cursor;",
    "every: LOOP",
    "SET v_is_over = 0;",
    `FETCH asked_cursor INTO ${each.map((field) => `v_${field}`).join(", ")};`,
    "IF v_is_over = 1 THEN LEAVE every; END IF;",
    ...work,
    answerOf(answer),
    "END LOOP;",
    "CLOSE asked_cursor;",
    "COMMIT;",
  ];
}

function cursorOver(fields: readonly string[]): string {
  return `DECLARE asked_cursor CURSOR FOR SELECT ${fields.join(", ")} FROM ${listOf(fields)};`;
}

function listOf(fields: readonly string[]): string {
  const columns = fields.map((field) => {
    const kind = kindOf(field);
    const type = kind === "name" ? "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin" : TYPES[kind];
    return `${field} ${type} PATH '$.${field}'`;
  });
  return `JSON_TABLE(v_list, '$[*]' COLUMNS (${columns.join(", ")})) AS asked`;
}

function stepOf(step: Step): readonly string[] {
  if (step === "clock") return READ_CLOCK;
  // Nobody can be rung: those who wait look by themselves.
  if (step === "ring") return [];
  const { when, unless } = step;
  const lines = statementOf(step);
  if (when !== undefined) return [`IF v_${when} <> 0 THEN`, ...lines, "END IF;"];
  return unless === undefined ? lines : [`IF v_${unless} = 0 THEN`, ...lines, "END IF;"];
}

function statementOf({ sql: source, into, counts }: Statement): readonly string[] {
  const text = `${withoutComments(source).trim()};`;
  if (counts !== undefined) return [text, `SET v_${counts} = ROW_COUNT();`];
  if (into === undefined) return [text];
  const variables = into.map((variable) => `v_${variable}`);
  // Where no row is found, variables keep what they held.
  const cleared = `SET ${variables.map((variable) => `${variable} = NULL`).join(", ")};`;
  const target = `INTO ${variables.join(", ")}`;
  // The statement's own FROM begins a line, unless all of it is one line.
  const own = /^FROM\b/m.test(text) ? /^FROM\b/m : /\bFROM\b/;
  return [cleared, own.test(text) ? text.replace(own, `${target} FROM`) : text.replace(";", ` ${target};`)];
}

function answerOf(answer: readonly string[]): string {
  const columns = answer.map((column) => {
    const kind = kindOf(column);
    const value = kind === "name" ? `CONVERT(v_${column} USING utf8mb4)` : `CAST(v_${column} AS CHAR)`;
    return `${kind === "text" ? `v_${column}` : value} AS ${column}`;
  });
  return `SELECT ${columns.join(", ")};`;
}

/** What is written for all databases, in the words of this one. */
function translated(source: string, prefix: string): string {
  return source
    .replace(/@(resources|claims|forced|cells|revisions)\b/g, (_, table: string) =>
      quoted(`${prefix}_${table}`),
    )
    .replace(/ON CONFLICT \(\w+\) DO UPDATE SET/g, "ON DUPLICATE KEY UPDATE")
    .replace(/\bexcluded\.(\w+)/g, "VALUES($1)")
    .replaceAll("@wall", CLOCK)
    .replaceAll("@asked(name, ticket)", listOf(["name", "ticket"]))
    .replace(/@text\(([^()]*(?:\([^()]*\))?[^()]*)\)/g, "CAST($1 AS CHAR)")
    .replace(/@utf8\(([^()]*)\)/g, "CONVERT($1 USING utf8mb4)")
    .replace(/@jsonlist\(([^()]*)\)/g, "JSON_ARRAYAGG(CONVERT($1 USING utf8mb4))")
    .replace(/(?<![:\w]):([a-z_]+)\b/g, "v_$1");
}
