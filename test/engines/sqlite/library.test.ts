import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { createLocks } from "locktender";
import type { SqliteOptions, sqlite } from "locktender/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { besideLibraries } from "../../support/other-libraries.js";
import { newFile } from "./tools.js";

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
const HAS_SQLITE = major >= 24;
/** From these versions on Node.js prints no warning when its SQLite is used. */
const IS_SILENT = major > 25 || (major === 25 && minor >= 7) || (major === 24 && minor >= 15);

/** A lock in a new file, with these packages installed; and which library that was. */
async function lockBeside(
  packages: readonly string[],
  options: SqliteOptions = {},
): Promise<string | undefined> {
  const beside = await besideLibraries(Object.fromEntries(packages.map((name) => [name, name])));
  onTestFinished(() => beside.remove());
  const main = (await import(beside.url("index.js"))) as { createLocks: typeof createLocks };
  const engine = (await import(beside.url("backends/sqlite/index.js"))) as { sqlite: typeof sqlite };
  const locks = main.createLocks(engine.sqlite({ file: await newFile(), ...options }));
  onTestFinished(() => locks.close());
  expect(locks.guarantees.client).toBeUndefined();
  await locks.mutex("a").run(() => undefined);
  return locks.guarantees.client;
}

describe(`the library that opens the file, on Node.js ${process.versions.node}`, () => {
  test("it is the one of Node.js where that is silent, else the one that is installed", async () => {
    expect(await lockBeside(["libsql"])).toMatch(IS_SILENT ? /^node:sqlite$/ : /^libsql \d/);
  });

  test("it is the one that is asked for", async () => {
    expect(await lockBeside(["libsql"], { library: "libsql" })).toMatch(/^libsql \d/);
  });

  test.runIf(HAS_SQLITE)("it is the one of Node.js where nothing is installed", async () => {
    expect(await lockBeside([])).toBe("node:sqlite");
    expect(await lockBeside(["libsql"], { library: "node:sqlite" })).toBe("node:sqlite");
  });

  test.runIf(!HAS_SQLITE)("without any, the error says what to do", async () => {
    for (const options of [{}, { library: "node:sqlite" }] as const) {
      await expect(lockBeside([], options)).rejects.toMatchObject({
        code: "unsupported",
        message: expect.stringMatching(
          /Use Node\.js 24 or later, which has it, or install a library: npm install libsql, or npm install better-sqlite3\.$/,
        ),
      });
    }
  });

  test.each(["libsql", "better-sqlite3"] as const)(
    "%s is asked for, and is not installed",
    async (library) => {
      await expect(lockBeside([], { library })).rejects.toMatchObject({
        code: "unsupported",
        message: `the package "${library}" is not installed: npm install ${library}.`,
      });
    },
  );

  test("one that does not exist is refused at once, and so is one beside a database", async () => {
    const library = "sqlite3" as "libsql";
    await expect(lockBeside([], { library })).rejects.toMatchObject({ code: "invalid-option" });
    const database = {} as NonNullable<SqliteOptions["database"]>;
    const both = { file: undefined, library: "libsql", database } as unknown as SqliteOptions;
    await expect(lockBeside([], both)).rejects.toThrow(/either a database, or a file and a library/);
  });

  test("nothing is printed by it", async () => {
    const beside = await besideLibraries(IS_SILENT ? {} : { libsql: "libsql" });
    onTestFinished(() => beside.remove());
    const url = `sqlite:${await newFile()}`;
    const code = `const { connect } = await import("${beside.url("index.js")}"); await (await connect("${url}")).close();`;
    const { stderr } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", code]);
    expect(stderr).toBe("");
  });
});
