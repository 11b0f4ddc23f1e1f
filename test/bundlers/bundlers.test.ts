import { cp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { LIBRARY } from "../engines/sqlite/default-library.js";
import { shared } from "../servers/shared.js";
import { installCopies } from "../support/packed.js";
import {
  BUNDLER,
  bare,
  copyPrograms,
  type Instructions,
  instructionsIn,
  newProject,
  perform,
  run,
  sectionsOf,
  temporaryFolder,
} from "./project.js";

/** The client libraries that are not installed. */
const ABSENT = /@grpc\/|iovalkey|mysql2|\bpg\b|"postgres"|'postgres'|"redis"|'redis'/;

let project: Awaited<ReturnType<typeof newProject>>;

beforeAll(async () => {
  project = await newProject();
});

afterAll(() => project.remove());

/** Builds the program in the project, and brings the bundle to a folder in which there is nothing else. */
async function bundle(program: string, { config, command }: Instructions) {
  const { folder } = project;
  await rm(join(folder, "out"), { recursive: true, force: true });
  await copyPrograms({ "app.mjs": "app.mjs", "turn.mjs": "turn.mjs", [program]: "main.mjs" }, folder);
  if (config !== undefined) await writeFile(join(folder, config.file), config.text);
  const output = await perform(command, folder);
  const alone = await temporaryFolder();
  onTestFinished(() => rm(alone, { recursive: true, force: true }));
  await cp(join(folder, "out"), alone, { recursive: true });
  await writeFile(join(alone, "package.json"), '{ "type": "module" }');
  return { output, alone };
}

async function start(folder: string, url: string): Promise<unknown> {
  const file = (await readdir(folder)).find((name) => /^app\.[cm]?js$/.test(name)) ?? "";
  const { stdout, stderr } = await run(process.execPath, ["--no-warnings", file, url], { cwd: folder });
  expect(stderr).toBe("");
  return JSON.parse(stdout);
}

describe.each(sectionsOf(BUNDLER))("built by %s, without client libraries that are not used", (section) => {
  test("a program with its own ioredis client runs from the bundle alone", async () => {
    const { alone } = await bundle("own.mjs", bare(instructionsIn(section)));
    expect(await start(alone, (await shared("redis")).url)).toEqual({
      client: "given",
      token: "bigint",
      error: "LockTimeoutError",
    });
  });

  test("so does one that connects by URL, and none of libsql's native files are in it", async () => {
    const { alone, output } = await bundle("connect.mjs", instructionsIn(section));
    // Files of the bundle may be named after what they replace.
    expect(output.split("\n").filter((line) => ABSENT.test(line) && !/ kB /.test(line))).toEqual([]);
    const seen = {
      token: "bigint",
      error: "LockTimeoutError",
      refused: expect.stringMatching(/^unsupported: .*npm install @grpc\/grpc-js @grpc\/proto-loader$/),
    };
    expect(await start(alone, (await shared("redis")).url)).toEqual({ client: "ioredis", ...seen });

    const files = (await readdir(alone, { recursive: true })).filter((name) => /\.\w+$/.test(name));
    expect(files.filter((name) => name.endsWith(".node"))).toEqual([]);
    const code = await Promise.all(files.map((name) => readFile(join(alone, name), "utf8")));
    expect(code.filter((text) => text.includes("@libsql/"))).toEqual([]);
    // Beside the bundle it is found, if Node.js itself has no SQLite.
    await installCopies(alone, ["libsql"]);
    const client = expect.stringMatching(new RegExp(`^${LIBRARY}`));
    expect(await start(alone, `sqlite:${join(alone, "locks.db")}`)).toEqual({ client, ...seen });
  });
});
