import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { examplesInComments } from "./comment-blocks.js";
import { makeProject, TSC } from "./project.js";

const run = promisify(execFile);
const EXAMPLES = examplesInComments();
const fileOf = (index: number): string => `example-${index + 1}`;

let folder: string;

beforeAll(async () => {
  const sources = new Map(EXAMPLES.map(({ text }, index) => [`${fileOf(index)}.ts`, text]));
  folder = await makeProject("comments", "comment-program.ts", sources);
});

afterAll(() => rm(folder, { recursive: true, force: true }));

/** What the compiler or a program says, with the places of the examples in place of their files. */
async function output(...args: string[]): Promise<string> {
  const env = { ...process.env, XDG_STATE_HOME: folder, NODE_OPTIONS: "" };
  const ended = await run(process.execPath, args, { cwd: folder, env, timeout: 30_000 }).catch(
    (error: { stdout: string; stderr: string; message: string }) => error,
  );
  const failed = "message" in ended ? ended.message : "";
  return `${ended.stdout}${ended.stderr}${failed}`.replace(
    /\S*example-(\d+)\.[jt]s/g,
    (_, number: string) => {
      return EXAMPLES[Number(number) - 1]?.at ?? "";
    },
  );
}

describe("the examples in the comments of the source", () => {
  test("they compile, as strictly as our own code, and those that need no server run to their end", async () => {
    expect(EXAMPLES.length).toBeGreaterThan(40);
    expect(await output(TSC, "-p", folder)).toBe("");
    const files = EXAMPLES.map((_, index) => join(folder, "out", `${fileOf(index)}.js`));
    const alone = files.filter((_, index) => EXAMPLES[index]?.needsServer === false);
    expect(alone.length).toBeGreaterThan(30);
    expect((await output(join(folder, "out/comment-program.js"), ...alone)).trimEnd()).toMatch(
      /\nall of them have ended$/,
    );
  });
});
