import { createHash } from "node:crypto";
import type { SchemaDriver } from "../sql/connection.js";
import { ReadOnlyServerError } from "../sql/errors.js";
import type { Row } from "../sql/replies.js";
import {
  BREAKING,
  conditioned,
  type Dialect,
  type Kind,
  REVISION,
  ROUTINES,
  type Routine,
  routineName,
  type Step,
  selectOf,
  translated,
  type Variables,
} from "../sql/routines.js";
import { busyError, charsetError, ENGINE, isWritable, meaningOf } from "./errors.js";
import { firstRow, type MysqlSession } from "./library.js";
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
  return conditioned(step, statementOf(step));
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

/** How long a process waits for another one that makes the tables, in seconds. */
const LONGEST_WAIT_S = 10;

/** Asked directly: a routine has the character set of the connection that made it. */
const SETTINGS = "SELECT @@character_set_client AS charset, @@global.read_only AS read_only";

/** Tables and procedures, all of which begin with the prefix. */
export function schemaDriver(prefix: string): SchemaDriver<MysqlSession> {
  return {
    refuseUnusable,
    breaking: (session) => breaking(prefix, session),
    create: (session, check) => create(prefix, session, check),
    lack: `the database has no tables and procedures "${prefix}_…" for the locks`,
    module: "locktender/mysql",
    tables: `the tables "${prefix}_…"`,
  };
}

async function breaking(prefix: string, session: MysqlSession): Promise<unknown> {
  try {
    return (await firstRow(session, `CALL ${procedureName(prefix, "breaking")}()`))?.breaking;
  } catch (error) {
    // Where autocommit is off, this look keeps others from making what it has not found, until it is over.
    await firstRow(session, "ROLLBACK");
    throw error;
  }
}

async function refuseUnusable(session: MysqlSession, where: string): Promise<void> {
  const row = await firstRow(session, SETTINGS);
  if (row?.charset !== "utf8mb4") throw charsetError(String(row?.charset));
  if (!isWritable(row?.read_only)) throw new ReadOnlyServerError(ENGINE, where);
}

/** One process at a time. Nothing of it can be undone as a whole, so each statement may be repeated. */
async function create(
  prefix: string,
  session: MysqlSession,
  check: (breaking: unknown) => void,
): Promise<void> {
  const run = (sql: string) => firstRow(session, sql);
  const before = await run(
    "SELECT @@sql_mode AS mode, @@collation_connection AS collation, DATABASE() AS named",
  );
  const lock = lockName(String(before?.named), prefix);
  const mine = await run(`SELECT GET_LOCK(${lock}, ${LONGEST_WAIT_S}) AS got`);
  if (Number(mine?.got) !== 1) throw busyError(prefix, LONGEST_WAIT_S);
  const restore = async () => {
    await run(`DO RELEASE_LOCK(${lock})`);
    await run(`SET SESSION sql_mode = '${before?.mode}', collation_connection = '${before?.collation}'`);
  };
  try {
    if (!(await isComplete(prefix, run, check)))
      for (const statement of statements(prefix)) await run(statement);
  } catch (error) {
    // What went wrong first is what counts.
    await restore().catch(() => undefined);
    throw error;
  }
  await restore();
}

/** Whether another process of this release was faster. */
async function isComplete(
  prefix: string,
  run: (sql: string) => Promise<Row | undefined>,
  check: (breaking: unknown) => void,
): Promise<boolean> {
  const breakingOf = async (sql: string) => {
    try {
      return (await run(sql))?.breaking;
    } catch (error) {
      if (meaningOf(error) === "missing") return undefined;
      throw error;
    }
  };
  const revisions = quoted(`${prefix}_revisions`);
  check((await breakingOf(`SELECT coalesce(max(breaking), 0) AS breaking FROM ${revisions}`)) ?? 0);
  return (await breakingOf(`CALL ${procedureName(prefix, "breaking")}()`)) !== undefined;
}

/**
 * The user lock that the process holds while it makes the schema. Hashed here, because MySQL 9.6 and later have
 * no SHA1(); the hash stays SHA-1, so that releases that let the server compute it take the same lock.
 */
function lockName(database: string, prefix: string): string {
  return `'locktender:${createHash("sha1").update(`${database}:${prefix}`).digest("hex")}'`;
}
