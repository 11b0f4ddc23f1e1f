import { describe, expect, test } from "vitest";
import * as operations from "#lib/backends/sql/routines.generated.js";
import { type Dialect, ROUTINES, translated } from "#lib/backends/sql/routines.js";

type Variables = readonly (readonly [name: string, kind: string])[];

interface Section {
  readonly name: string;
  readonly statement: string;
  readonly sets: Variables;
  readonly condition?: { readonly word: string; readonly variable: string };
}

interface Parsed {
  readonly name: string;
  readonly inputs: Variables;
  readonly locals: Variables;
  readonly each: Variables;
  readonly before?: readonly Section[];
  readonly steps: readonly Section[];
  readonly columns: Variables;
  readonly query?: string;
}

interface Scripts {
  parseRoutine(file: string, text: string, shared: ReadonlyMap<string, Section>): Parsed;
  parseSections(file: string, text: string): ReadonlyMap<string, Section>;
  routinesModule(files: ReadonlyMap<string, string>): string;
}

// Scripts without types; computing their addresses keeps the compiler from looking for them.
const load = (name: string) => import(new URL(`../../../scripts/${name}`, import.meta.url).href);
const scripts = { ...(await load("sql-routines.mjs")), ...(await load("sql-module.mjs")) } as Scripts;
const { parseRoutine, parseSections, routinesModule } = scripts;

const SHARED = `-- For all.

-- section: clock
-- sets now_us bigint

-- section: drop-expired  counts removed
DELETE FROM @claims WHERE name = :name AND deadline_us <= :now_us
`;

const HEADER = `-- Looks.
--
-- In:      name name: of the lock
--          weight, most integer
-- Out:     mine bigint: a ticket
-- Touches: claims
`;

const LOOK = `
-- include: clock

-- section: look
-- Looks for it: all at once.
-- sets mine bigint
-- sets expired integer: how many
SELECT
  coalesce((SELECT max(ticket) FROM @claims), 0) AS mine,
  -- Counted here.
  count(*) AS expired
FROM @claims
WHERE name = :name
`;

const parse = (body: string, header = HEADER) =>
  parseRoutine("look-up.sql", `${header}${body}`, parseSections("shared.sql", SHARED));

describe("an operation, read from its file", () => {
  test("the steps, their conditions and the variables stand in the order of the file", () => {
    const body = `${LOOK}
-- include: drop-expired  when expired
-- include: look  unless removed
`;
    const { name, inputs, locals, steps, columns } = parse(body);
    expect(name).toBe("look_up");
    expect(inputs).toEqual([
      ["name", "name"],
      ["weight", "integer"],
      ["most", "integer"],
    ]);
    expect(locals).toEqual([
      ["now_us", "bigint"],
      ["mine", "bigint"],
      ["expired", "integer"],
      ["removed", "integer"],
    ]);
    expect(columns).toEqual([["mine", "bigint"]]);
    expect(steps.map(({ name, condition }) => [name, condition?.word, condition?.variable])).toEqual([
      ["clock", undefined, undefined],
      ["look", undefined, undefined],
      ["drop-expired", "when", "expired"],
      ["look", "unless", "removed"],
    ]);
    expect(steps[1]?.statement).not.toContain("--");
  });

  test("what stands below `each` runs for each element", () => {
    const body = `
-- include: clock

-- each: element of \`list\`
-- has name name
-- has mine bigint

-- include: drop-expired
`;
    const { before, each, steps } = parse(body, HEADER.replace("name name", "list text"));
    expect(before?.map(({ name }) => name)).toEqual(["clock"]);
    expect(each).toEqual([
      ["name", "name"],
      ["mine", "bigint"],
    ]);
    expect(steps.map(({ name }) => name)).toEqual(["drop-expired"]);
  });

  test("the rows of a statement can be the answer", () => {
    const { query, steps } = parse("\n-- answer: one row\nSELECT max(ticket) AS mine FROM @claims\n");
    expect(query).toBe("SELECT max(ticket) AS mine FROM @claims");
    expect(steps).toEqual([]);
  });

  test("the module has a shared section once, and expressions where no table is needed", () => {
    const text = `${HEADER}
-- include: clock
-- include: drop-expired

-- section: judge
-- sets mine bigint
SELECT
  CASE WHEN :removed = 0 THEN greatest(:weight, 1) ELSE 0 END AS mine

-- include: drop-expired  when removed
`;
    const module = routinesModule(
      new Map([
        ["look-up.sql", text],
        ["shared.sql", SHARED],
      ]),
    );
    expect(module.split("DELETE FROM").length - 1).toBe(1);
    expect(module).toContain("export const lookUp: Routine = {");
    expect(module).toContain('{ ...shared["drop-expired"], when: "removed" }');
    expect(module).toContain(
      '{"values":{"mine":"CASE WHEN :removed = 0 THEN greatest(:weight, 1) ELSE 0 END"}}',
    );
  });

  test.each([
    ["a directive that is not known", "\n-- sektion: look\n", ':8: "sektion:" is not known'],
    ["a section that is not there", "\n-- include: drow\n", ':8: there is no section "drow"'],
    ["a word that is not known", "\n-- section: a  if b\n", ':8: "if" is not known'],
    ["a variable before it is set", "\n-- include: drop-expired\n", ":8: :now_us is used before it is set"],
    ["a condition before it is set", "\n-- include: clock  when late\n", ":8: late is no integer"],
    [
      "a column that is not declared",
      LOOK.replace("-- sets mine bigint\n", ""),
      "the columns are mine, expired",
    ],
    ["a column without a name", LOOK.replace(" AS expired", ""), 'the column "count(*)" has no name'],
    ["a SELECT that sets nothing", "\n-- section: a\nSELECT 1 AS one\n", "what does the SELECT set?"],
    ["a kind that is not known", LOOK.replace("mine bigint", "mine number"), '"mine number" is not: names'],
    [
      "two kinds of one variable",
      LOOK.replace("mine", "weight").replaceAll("mine", "weight"),
      "of kind integer",
    ],
    [
      "a variable that is used where it is set",
      LOOK.replace("WHERE name = :name", "WHERE ticket > :mine"),
      ":mine is used where it is set",
    ],
    ["a word of our own that is not known", LOOK.replaceAll("@claims", "@claim"), "@claim is not known"],
    ["a statement without a section", "\nDELETE FROM @claims\n", ":8: a statement without a section"],
    [
      "a declaration at the wrong place",
      "\n-- include: clock\n-- sets a bigint\n",
      ':9: "sets" does not stand',
    ],
    ["an answer that nothing sets", "\n-- include: clock\n", '"Out:" names mine bigint'],
    [
      "a step behind the answer",
      "\n-- answer: a\nSELECT 1 AS mine\n-- include: clock\n",
      "nothing can follow",
    ],
  ])("refused: %s", (_, body, message) => {
    expect(() => parse(body)).toThrow(message);
    expect(() => parse(body)).toThrow(/^look-up\.sql:\d+: /);
  });

  test("refused: a header that leaves something out", () => {
    expect(() => parse(LOOK, HEADER.replace("Touches", "Reads"))).toThrow(
      'look-up.sql:6: "Reads:" is no field',
    );
    expect(() => parse(LOOK, HEADER.replace(/-- Touches.*\n/, ""))).toThrow('the header has no "Touches:"');
  });

  test("refused: a shared section with a condition, or twice", () => {
    const section = "\n-- section: a\nDELETE FROM @claims\n";
    expect(() => parseSections("shared.sql", section.replace("a\n", "a  when b\n"))).toThrow(
      "shared.sql:2: ",
    );
    expect(() => parseSections("shared.sql", section + section)).toThrow('two sections "a"');
  });
});

describe("the operations of the databases", () => {
  test("a database is given all of them", () => {
    expect(new Set(ROUTINES)).toEqual(new Set(Object.values(operations)));
  });
});

describe("SQL for one database", () => {
  const dialect: Dialect = {
    table: (name) => `"s:odd @claims".${name}`,
    variable: (name) => `v_${name}`,
    wall: () => "now()",
    asked: (fields) => `list of ${fields.join(" and ")}`,
    text: (value) => `str(${value})`,
    utf8: (name) => name,
    jsonlist: (name) => `json(${name})`,
    rewrites: [[/\bgreatest\(/g, "max("]],
  };

  test("all that is left open is translated, and nothing twice", () => {
    expect(translated("SELECT greatest(@wall, :a_b) FROM @claims", dialect)).toBe(
      'SELECT max(now(), v_a_b) FROM "s:odd @claims".claims',
    );
    expect(translated("@text(:now_us - coalesce(a, @wall)) AS x", dialect)).toBe(
      "str(v_now_us - coalesce(a, now())) AS x",
    );
    expect(translated("FROM @asked(name, ticket)", dialect)).toBe("FROM list of name and ticket");
  });

  test("what only looks alike stays", () => {
    const source = "v_x := a::bigint; SELECT @@global.read_only, 'a@b', t.x";
    expect(translated(source, dialect)).toBe(source);
  });

  test("what the database does not know is refused", () => {
    expect(() => translated("@routine(ring)(1)", dialect)).toThrow("does not know @routine");
    expect(() => translated("@clams", dialect)).toThrow("does not know @clams");
  });
});
