import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { conformance, type Harness } from "locktender/testing";
import { expect, test } from "vitest";
import { ENGINE_NAMES, type EngineName, entryOf } from "../engines.js";
import { type EngineTests, loadEngineTests } from "../support/engine-tests.js";
import { markdownTable, markedPart, withMarkedPart } from "../support/markdown-table.js";

const PAGE = fileURLToPath(new URL("../../docs/what-runs-where.md", import.meta.url));
const MARK = "what runs where: written by test/house/what-runs-where.test.ts";

/** What a harness may lack, and the cases that need it. */
const NEEDS = {
  processes: "child processes that crash or pause",
  network: "a broken network",
  wipe: "a server that forgets",
  queue: "a queue",
  sticky: "sticky claims",
  cells: "cells",
  kinds: "other kinds of locks than the mutex",
  disguises: "other kinds, used as a mutex",
  leftovers: "a count of what is left behind",
} as const satisfies Partial<Record<keyof Harness, string>>;

const LOADED = await Promise.all(
  ENGINE_NAMES.map(async (name) => ({ name, tests: await loadEngineTests(name) })),
);

function reasonsOf(harness: Harness): Map<string, string> {
  const found = new Map<string, string>();
  for (const [need, words] of Object.entries(NEEDS)) {
    const given = harness[need as keyof typeof NEEDS];
    if (given !== undefined && "skip" in given) found.set(words, given.skip);
    else if (given === undefined && need === "leftovers")
      found.set(words, "its harness does not say how to count");
  }
  return found;
}

/** Reasons that stand at the cases themselves, and count on every engine. */
function reasonsOfCases(): string[] {
  const found = new Set<string>();
  const [memory] = LOADED.flatMap(({ tests }) => Object.values(tests.conformance));
  if (memory === undefined) throw new Error("there is no engine");
  const ofHarness = [...reasonsOf(memory).values()];
  conformance(
    {
      describe: (_, body) => body(),
      test: () => undefined,
      skip: (_, reason) => void (ofHarness.includes(reason) || found.add(`- ${reason}.`)),
    },
    memory,
  );
  return [...found].sort();
}

function rowsOf(name: EngineName, { conformance: files }: EngineTests): string[][] {
  const { inProcess } = entryOf(name);
  const ofModel = inProcess === undefined ? [] : [[name, "model, history", inProcess]];
  return Object.entries(files).flatMap(([file, harness], index) => {
    const reasons = [...reasonsOf(harness)].map(([words, reason]) => [`${name}/${file}`, words, reason]);
    const rows = reasons.length > 0 ? reasons : [[`${name}/${file}`, "", "all of it is run"]];
    return index === 0 ? [...rows, ...ofModel] : rows;
  });
}

test("docs/what-runs-where.md says what the suite leaves out, and why", () => {
  const rows = LOADED.flatMap(({ name, tests }) => rowsOf(name, tests));
  const table = markdownTable(["in test/engines", "is not run with", "because"], rows);
  const cases = [
    "On every engine, cases of the mutex are not run with the last permit of a semaphore where",
    "",
    ...reasonsOfCases(),
  ].join("\n");
  const part = `\n${table}\n\n${cases}\n\n`;
  const page = readFileSync(PAGE, "utf8");
  // To write it anew: LOCKTENDER_WRITE_TABLE=1 npx vitest run test/house/what-runs-where.test.ts
  if (process.env.LOCKTENDER_WRITE_TABLE) writeFileSync(PAGE, withMarkedPart(page, MARK, part));
  else expect(markedPart(page, MARK)).toBe(part);
});

test.each(LOADED)("what it says of $name is what its conformance files leave out", ({ name, tests }) => {
  const folder = new URL(`../engines/${name}/`, import.meta.url);
  const files = readdirSync(folder).filter((file) => /^conformance.*\.test\.ts$/.test(file));
  expect(Object.keys(tests.conformance).sort()).toEqual(
    files.map((file) => file.replace(/\.test\.ts$/, "")).sort(),
  );
  for (const [file, { kinds, disguises }] of Object.entries(tests.conformance)) {
    const source = readFileSync(new URL(`${file}.test.ts`, folder), "utf8");
    const [, shownBy] = /otherKinds\("(.*)"\)/.exec(source) ?? [];
    expect(kinds?.skip.endsWith(`as shown by ${shownBy}`) ?? shownBy, file).toBe(kinds && true);
    expect(/disguises: \{ skip: "(.*)" \}/.exec(source)?.[1], file).toBe(disguises?.skip);
  }
});
