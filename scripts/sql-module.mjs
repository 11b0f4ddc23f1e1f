// Writes the operations of the database engines as a module of typed routines, whose types are in
// src/backends/sql/routines.ts.
import { parseRoutine, parseSections } from "./sql-routines.mjs";

/** @typedef {import("./sql-routines.mjs").Section} Section */
/** @typedef {import("./sql-routines.mjs").ParsedRoutine} ParsedRoutine */

/**
 * The text of the module, from the texts of all files.
 * @param {ReadonlyMap<string, string>} files Name -> text.
 */
export function routinesModule(files) {
  const shared = parseSections("shared.sql", files.get("shared.sql"));
  const routines = [...files].filter(([file]) => file !== "shared.sql");
  const constants = [...shared.values()].map(
    (section) => `  ${JSON.stringify(section.name)}: ${literal(stepOf(section))},\n`,
  );
  const exported = routines.map(([file, text]) => {
    const name = file.replace(/\.sql$/, "").replace(/-(\w)/g, (_, letter) => letter.toUpperCase());
    return `\nexport const ${name}: Routine = {\n${membersOf(parseRoutine(file, text, shared)).join("")}};\n`;
  });
  return [
    'import type { Routine } from "./routines.js";\n',
    `\nconst shared = {\n${constants.join("")}} as const;\n`,
    ...exported,
  ].join("");
}

/** @param {ParsedRoutine} routine */
function membersOf(routine) {
  const { name, inputs, locals, onlyOnce, onlyOnPrimary, before, each, steps, columns, query } = routine;
  const list = (sections) => `[\n${sections.map((section) => `    ${writtenStep(section)},\n`).join("")}  ]`;
  const members = {
    name: literal(name),
    inputs: literal(Object.fromEntries(inputs)),
    locals: literal(Object.fromEntries(locals)),
    onlyOnce,
    onlyOnPrimary,
    before: before && list(before),
    each: before && literal(Object.fromEntries(each)),
    steps: list(steps),
    columns: literal(Object.fromEntries(columns)),
    query: query && literal(query),
  };
  return Object.entries(members).flatMap(([key, value]) =>
    value === undefined ? [] : `  ${key}: ${value},\n`,
  );
}

/** @param {Section} section */
function writtenStep(section) {
  const condition = conditionOf(section);
  if (section.isShared !== true) return literal({ ...stepOf(section), ...condition });
  const source = `shared[${JSON.stringify(section.name)}]`;
  const [entry] = Object.entries(condition);
  return entry === undefined ? source : `{ ...${source}, ${entry[0]}: ${JSON.stringify(entry[1])} }`;
}

function conditionOf({ condition }) {
  return condition === undefined ? {} : { [condition.word]: condition.variable };
}

/**
 * A section as a `Step`.
 * @param {Section} section
 */
function stepOf({ name, statement, sets, counts, locks, select }) {
  if (statement === "") return { engine: name };
  if (select === undefined) return { sql: statement, counts };
  if (select.from === undefined)
    return { values: Object.fromEntries(select.columns.map(({ name: column, value }) => [column, value])) };
  const parts = { select: statement.slice(0, select.from), from: statement.slice(select.from) };
  return { ...parts, into: sets.map(([variable]) => variable), locks };
}

function literal(value) {
  return JSON.stringify(value);
}
