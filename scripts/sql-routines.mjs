// Reads the operations of the database engines (src/backends/sql/*.sql), for the build: nothing is parsed when a
// program runs. One file is one operation, read from top to bottom:
//
//   -- What it does.
//   --
//   -- In:      name name: of the lock          variables, in this order: names, a kind, and a meaning for people
//   --          weight, capacity integer
//   -- Out:     verdict text                    one row of these variables, or the columns of `answer`
//   -- Touches: claims                          the tables that it changes, for people
//   -- Name:    leave                           its name in the database, if that is not the name of the file
//   -- Once:    why it must not be repeated     after a lost answer (`Routine.onlyOnce`)
//   -- Primary: why a read-only server refuses  although it only reads (`Routine.onlyOnPrimary`)
//
//   -- section: look  when occupied             one statement; `when` and `unless` name a variable that is not, or
//   -- What it is for.                          is, 0
//   -- sets mine bigint: the ticket             the columns of the SELECT, which fill variables of the same names
//   SELECT max(ticket) AS mine FROM @claims
//
//   -- section: drop  counts removed            `removed` becomes the number of rows that the statement has changed
//   -- section: seize  locks                    it only locks a row, for engines that have locks on rows
//   -- include: draw  unless advanced           a section of shared.sql, or one that stands above; the condition is
//                                               that of this line
//   -- each: element of `list`                  all below runs for each element of the JSON array `list`
//   -- has name name                            a field of the element, which becomes a variable
//   -- answer: one row per claim                the statement whose rows are the answer
//
// A section of shared.sql without a statement is written by each engine itself, in its sections.sql. In statements,
// `:name` is a variable, and `@` begins what each engine writes in its own way (src/backends/sql/routines.ts).

/** @typedef {"name" | "id" | "text" | "integer" | "bigint"} Kind */
/** @typedef {[name: string, kind: Kind][]} Variables In their order. */
/**
 * @typedef {object} Section
 * @property {string} name
 * @property {string} statement Empty if each engine writes it.
 * @property {Variables} sets Those of its columns, and the one that counts.
 * @property {{ word: "when" | "unless", variable: string }} [condition]
 * @property {string} [counts]
 * @property {true} [locks]
 * @property {{ columns: { name: string, value: string }[], from?: number }} [select]
 * @property {boolean} [isShared]
 */
/**
 * @typedef {object} ParsedRoutine
 * @property {string} name
 * @property {true} [onlyOnce]
 * @property {true} [onlyOnPrimary]
 * @property {Variables} inputs
 * @property {Variables} locals
 * @property {Section[]} [before] What runs once, if the steps run for each element of a list.
 * @property {Variables} each
 * @property {Section[]} steps
 * @property {Variables} columns
 * @property {string} [query]
 */

const KINDS = ["name", "id", "text", "integer", "bigint"];
const DECLARATION = new RegExp(`^([a-z_]+(?:, [a-z_]+)*) (${KINDS.join("|")})(?:: .*)?$`);
const FLAGS = { Once: "onlyOnce", Primary: "onlyOnPrimary" };
const FIELDS = ["In", "Out", "Touches", "Name", ...Object.keys(FLAGS)];
const DIRECTIVES = ["section", "include", "each", "answer"];
const WORDS = new Set([
  ...["resources", "claims", "forced", "cells", "revisions", "routine"],
  ...["wall", "asked", "text", "utf8", "jsonlist"],
]);

/**
 * The sections of a file by their names: shared.sql, or the sections.sql of an engine.
 * @param {string} file
 * @param {string} text
 * @returns {Map<string, Section>}
 */
export function parseSections(file, text) {
  const sections = new Map();
  for (const block of blocksOf(file, text).blocks) {
    if (block.directive !== "section") block.fail(`only sections belong here, and not "${block.directive}"`);
    const section = sectionOf(block);
    if (section.condition !== undefined) block.fail("the line that includes it gives the condition");
    if (sections.has(section.name)) block.fail(`there are two sections "${section.name}"`);
    sections.set(section.name, section);
  }
  return sections;
}

/**
 * One operation, before it is written as a `Routine` of src/backends/sql/routines.ts.
 * @param {string} file
 * @param {string} text
 * @param {ReadonlyMap<string, Section>} shared
 * @returns {ParsedRoutine}
 */
export function parseRoutine(file, text, shared) {
  const { fields, blocks, fail } = blocksOf(file, text);
  for (const field of ["In", "Out", "Touches"])
    if (!fields.has(field)) fail(1, `the header has no "${field}:"`);
  const inputs = declared(fields.get("In"));
  const out = declared(fields.get("Out"));
  const variables = new Map(inputs);
  const sections = new Map();
  const routine = { name: fields.get("Name")?.[0]?.text ?? file.replace(/\.sql$/, "").replaceAll("-", "_") };
  for (const [field, flag] of Object.entries(FLAGS)) if (fields.has(field)) routine[flag] = true;
  let before;
  let each = [];
  let steps = [];
  let query;
  for (const block of blocks) {
    const learn = (names) => {
      for (const [name, kind] of names) {
        const known = variables.get(name) ?? kind;
        if (known !== kind) block.fail(`${name} is of kind ${known}, and not ${kind}`);
        variables.set(name, kind);
      }
    };
    const needs = (text) => {
      for (const [, name] of text.matchAll(/(?<![:\w]):([a-z]\w*)/g))
        if (!variables.has(name)) block.fail(`:${name} is used before it is set`);
    };
    if (query !== undefined) block.fail("nothing can follow the answer");
    if (block.directive === "each") {
      if (before !== undefined) block.fail('there is a second "each"');
      if (!variables.has("list")) block.fail('"each" needs the input "list"');
      if (steps.some(({ statement }) => statement !== "")) block.fail("no statement can stand before it");
      each = block.declared;
      learn(each);
      before = steps;
      steps = [];
      continue;
    }
    if (block.directive === "answer") {
      query = statementOf(block);
      needs(query);
      checkColumns(block, splitSelect(block, query).columns, out);
      continue;
    }
    const isIncluded = block.directive === "include";
    const section = isIncluded ? included(block, sections, shared) : sectionOf(block);
    if (!isIncluded && (sections.has(section.name) || shared.has(section.name)))
      block.fail(`there are two sections "${section.name}"`);
    sections.set(section.name, section);
    const { condition } = section;
    if (condition !== undefined && variables.get(condition.variable) !== "integer")
      block.fail(`${condition.variable} is no integer that is set before`);
    needs(section.statement);
    learn(section.sets);
    steps.push(section);
  }
  const named = (list) => list.flatMap((section) => section.sets);
  const locals = new Map([...each, ...named(steps), ...named(before ?? [])]);
  if (query === undefined) {
    for (const [name, kind] of out)
      if (variables.get(name) !== kind) fail(1, `"Out:" names ${name} ${kind}, which no section sets`);
  }
  for (const [name] of inputs) locals.delete(name);
  return { ...routine, inputs, locals: [...locals], before, each, steps, columns: out, query };
}

/** The header's fields and the blocks that directives begin. */
function blocksOf(file, text) {
  const fail = (line, message) => {
    throw new Error(`${file}:${line}: ${message}`);
  };
  const lines = text.split("\n");
  const end = lines.findIndex((line) => !line.startsWith("--"));
  const fields = new Map();
  let entries;
  for (const [index, line] of lines.slice(0, end).entries()) {
    const [, field, rest] = /^-- ([A-Z][a-z]+): +(.*)$/.exec(line) ?? [];
    const [, more] = /^-- {6,}(.*)$/.exec(line) ?? [];
    if (field !== undefined) {
      if (!FIELDS.includes(field)) fail(index + 1, `"${field}:" is no field of a header`);
      entries = [];
      fields.set(field, entries);
    } else if (more === undefined) entries = undefined;
    entries?.push({ text: rest ?? more, fail: (message) => fail(index + 1, message) });
  }
  const blocks = [];
  let isProse = false;
  for (const [offset, line] of lines.slice(end).entries()) {
    const at = end + offset + 1;
    const [, word, rest] = /^-- ([a-z]+): *(.*)$/.exec(line) ?? [];
    // In the middle of a comment, a word and a colon are prose.
    const directive = isProse && !DIRECTIVES.includes(word) ? undefined : word;
    const [, verb, declaration] = /^-- (sets|has) (.*)$/.exec(line) ?? [];
    const block = blocks.at(-1);
    if (directive !== undefined) {
      if (!DIRECTIVES.includes(directive))
        fail(at, `"${directive}:" is not known, and no comment may begin so`);
      blocks.push({ directive, rest, declared: [], lines: [], fail: (message) => fail(at, message) });
    } else if (verb !== undefined) {
      const fits = block !== undefined && { sets: "section", has: "each" }[verb] === block.directive;
      if (!fits || block.lines.length > 0) fail(at, `"${verb}" does not stand below its directive`);
      block.declared.push(...declared([{ text: declaration, fail: (message) => fail(at, message) }]));
    } else if (line.trim() !== "" && !/^\s*--/.test(line)) {
      if (block === undefined) fail(at, "a statement without a section");
      block.lines.push(line);
    }
    isProse = directive === undefined && verb === undefined && line.startsWith("--");
  }
  return { fields, blocks, fail };
}

function declared(entries) {
  return entries.flatMap(({ text, fail }) => {
    const [, names, kind] =
      DECLARATION.exec(text) ?? fail(`"${text}" is not: names, a kind, and ": meaning"`);
    return names.split(", ").map((name) => [name, kind]);
  });
}

function statementOf(block) {
  const statement = block.lines.join("\n");
  for (const [, word] of statement.matchAll(/(?<![@\w])@(\w+)/g))
    if (!WORDS.has(word)) block.fail(`@${word} is not known`);
  if (statement === "" && block.directive === "answer") block.fail("the answer has no statement");
  return statement;
}

function sectionOf(block) {
  const [name, ...words] = block.rest.split(/ +/);
  const section = { name, statement: statementOf(block), sets: [...block.declared] };
  for (let word = words.shift(); word !== undefined; word = words.shift()) {
    if (word === "locks") section.locks = true;
    else if (word === "counts") section.counts = words.shift();
    else if (word === "when" || word === "unless") section.condition = { word, variable: words.shift() };
    else block.fail(`"${word}" is not known: a section has when, unless, counts and locks`);
  }
  const { statement, sets, counts } = section;
  if (statement !== "" && sets.length > 0) {
    section.select = splitSelect(block, statement);
    checkColumns(block, section.select.columns, sets);
    if (counts !== undefined) block.fail("a SELECT counts no changes");
    // MySQL clears them before, and PostgreSQL sets them one after the other.
    const own = sets.find(([name]) => new RegExp(`:${name}\\b`).test(statement));
    if (own !== undefined) block.fail(`:${own[0]} is used where it is set`);
  } else if (/^SELECT\b/.test(statement)) block.fail("what does the SELECT set?");
  if (counts !== undefined) sets.push([counts, "integer"]);
  return section;
}

function included(block, own, shared) {
  const asked = sectionOf(block);
  if (block.lines.length > 0) block.fail('"include" has no statement of its own');
  if (asked.counts !== undefined || asked.locks) block.fail('"include" has no words but when and unless');
  const found = own.get(asked.name) ?? shared.get(asked.name);
  if (found === undefined) block.fail(`there is no section "${asked.name}", neither above nor in shared.sql`);
  return { ...found, condition: asked.condition, isShared: shared.has(asked.name) };
}

function checkColumns(block, columns, names) {
  const found = columns.map(({ name }) => name).join(", ");
  const wanted = names.map(([name]) => name).join(", ");
  if (found !== wanted) block.fail(`the columns are ${found}; declared are ${wanted}`);
}

/** A SELECT: its columns, and where its own FROM begins; those of other SELECTs stand in parentheses. */
function splitSelect(block, statement) {
  if (!/^SELECT\b/.test(statement)) block.fail("only a SELECT has columns");
  const columns = [];
  let from;
  let depth = 0;
  let start = "SELECT".length;
  const end = (index) => {
    const text = statement.slice(start, index).trim();
    const [, value, name] = /^([\s\S]*)\sAS ([a-z_]+)$/.exec(text) ?? [undefined, text, text];
    if (!/^[a-z_]+$/.test(name)) block.fail(`the column "${text}" has no name`);
    columns.push({ name, value });
    start = index + 1;
  };
  for (const { 0: token, index } of statement.matchAll(/'[^']*'|[(),]|\bFROM\b/g)) {
    if (token === "(") depth++;
    else if (token === ")") depth--;
    else if (depth > 0 || token.startsWith("'")) continue;
    else if (token === ",") end(index);
    else {
      from = index;
      break;
    }
  }
  end(from ?? statement.length);
  return { columns, from };
}
