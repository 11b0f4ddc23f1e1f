import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { memoryHarness } from "../engines/memory/harness.js";
import { ENGINE_NAMES, entryOf } from "../engines.js";
import { fullHarness, loadEngineTests } from "../support/engine-tests.js";
import { kindsTable } from "../support/kinds-table.js";

const PAGE = fileURLToPath(new URL("../../docs/guide/locks.md", import.meta.url));
const [BEGIN, END] = [
  "<!-- what works where: written by test/house/kinds-table.test.ts -->\n",
  "<!-- end -->",
];

const LOADED = await Promise.all(
  ENGINE_NAMES.map(async (name) => ({ name, tests: await loadEngineTests(name) })),
);
const HARNESSES = Object.fromEntries(
  LOADED.map(({ name, tests }) => [entryOf(name).title, fullHarness(tests)] as const),
);

test("the table of what works where in docs/guide/locks.md is what the suite runs", () => {
  const text = readFileSync(PAGE, "utf8");
  const [before = "", rest = ""] = text.split(BEGIN);
  const [shown = "", after = ""] = rest.split(END);
  const table = `\n${kindsTable(HARNESSES)}\n\n`;
  // To write it anew: LOCKTENDER_WRITE_TABLE=1 npx vitest run test/house/kinds-table.test.ts
  if (process.env.LOCKTENDER_WRITE_TABLE) writeFileSync(PAGE, `${before}${BEGIN}${table}${END}${after}`);
  else expect(shown).toBe(table);
});

test.each(LOADED)("what is counted for $name is what its tests run", ({ name, tests: { conformance } }) => {
  const [file = ""] = Object.keys(conformance);
  const source = readFileSync(new URL(`../engines/${name}/${file}.test.ts`, import.meta.url), "utf8");
  const calls = [...source.matchAll(/^conformance\(\w+, (.*)\);$/gm)].map(([, harness]) => harness);
  // The harness as it is: nothing is spread over it that would leave out a kind.
  expect(calls).toEqual([expect.stringMatching(/^(await )?\w+Harness\([^{}]*$/)]);
});

test("a kind that no case is run of is not called one that works", () => {
  const none = { ...memoryHarness(), kinds: { skip: "shown elsewhere" } };
  const [, , mutex, queue, readWrite] = kindsTable({ memory: none }).split("\n");
  expect([mutex, queue, readWrite].map((row) => row?.split("|").at(2)?.trim())).toEqual(["yes", "yes", "no"]);
});
