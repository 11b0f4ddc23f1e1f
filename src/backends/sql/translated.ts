/** How one database writes what our SQL leaves open. */
export interface Dialect {
  /** `@claims`: a table of ours. */
  table(name: string): string;
  /** `:name`: a variable. */
  variable(name: string): string;
  /** `@wall`: the wall clock in microseconds, as an expression. */
  wall(): string;
  /** `@asked(name, ticket)`: the elements of the JSON array `:list` as a table `asked`, with these fields. */
  asked(fields: readonly string[]): string;
  /** `@text(value)`: a number as text. */
  text(value: string): string;
  /** `@utf8(name)`: the bytes of a name as text. */
  utf8(name: string): string;
  /** `@jsonlist(name)`: the names of all rows, as a JSON array. */
  jsonlist(name: string): string;
  /** `@routine(name)`: a routine of this release. */
  routine?(name: string): string;
  /** What it calls differently. */
  readonly rewrites?: readonly (readonly [pattern: RegExp, replacement: string])[];
}

const TABLES: ReadonlySet<string> = new Set(["resources", "claims", "forced", "cells", "revisions"]);
const FUNCTIONS = ["text", "utf8", "jsonlist", "routine"] as const;

/** `@word`, with what stands in parentheses right behind it, or `:variable`; but not `@@variable`, `::type` or `:=`. */
const OPEN = /(?<![@\w])@(\w+)(?:\(((?:[^()]|\([^()]*\))*)\))?|(?<![:\w]):([a-z]\w*)/g;

/** SQL that is written for all databases, as one of them takes it. */
export function translated(source: string, dialect: Dialect): string {
  const { rewrites = [] } = dialect;
  const rewritten = rewrites.reduce((text, [pattern, word]) => text.replace(pattern, word), source);
  return rewritten.replace(
    OPEN,
    (_, word: string | undefined, inside: string | undefined, variable: string) => {
      if (word === undefined) return dialect.variable(variable);
      if (TABLES.has(word)) return dialect.table(word) + (inside === undefined ? "" : `(${inside})`);
      if (word === "wall") return dialect.wall();
      if (word === "asked" && inside !== undefined) return dialect.asked(inside.split(", "));
      const name = FUNCTIONS.find((known) => known === word);
      if (name === undefined || inside === undefined || dialect[name] === undefined)
        throw new Error(`this database does not know @${word}`);
      return dialect[name](translated(inside, dialect));
    },
  );
}
