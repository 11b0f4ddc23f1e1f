import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ROOT } from "./blocks.js";
import { examplesInComments } from "./comment-blocks.js";

const run = promisify(execFile);
const EXAMPLES = examplesInComments();
const fileOf = (index: number): string => `example-${index + 1}`;

/** Inside the project, so that the client libraries are found; the package itself is linked into it. */
let folder: string;

beforeAll(async () => {
  await mkdir(join(ROOT, "node_modules/.cache"), { recursive: true });
  folder = await mkdtemp(join(ROOT, "node_modules/.cache/comments-"));
  await mkdir(join(folder, "node_modules"));
  await symlink(ROOT, join(folder, "node_modules/locktender"));
  await writeFile(join(folder, "package.json"), '{ "type": "module", "private": true }');
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(tsconfig()));
  await copyFile(join(ROOT, "test/examples/comment-program.ts"), join(folder, "comment-program.ts"));
  for (const [index, { text }] of EXAMPLES.entries()) {
    // Without an import it is a module all the same.
    await writeFile(join(folder, `${fileOf(index)}.ts`), `${text}\nexport {};\n`);
  }
});

afterAll(() => rm(folder, { recursive: true, force: true }));

/** As strict as our own, but an example may define what it does not use. */
function tsconfig(): object {
  return {
    extends: join(ROOT, "tsconfig.json"),
    compilerOptions: {
      rootDir: ".",
      outDir: "out",
      declaration: false,
      noUnusedLocals: false,
      typeRoots: [join(ROOT, "node_modules/@types")],
    },
    files: ["comment-program.ts", ...EXAMPLES.map((_, index) => `${fileOf(index)}.ts`)],
    include: [],
  };
}

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
    expect(await output(join(ROOT, "node_modules/typescript/bin/tsc"), "-p", folder)).toBe("");
    const files = EXAMPLES.map((_, index) => join(folder, "out", `${fileOf(index)}.js`));
    const alone = files.filter((_, index) => EXAMPLES[index]?.needsServer === false);
    expect(alone.length).toBeGreaterThan(30);
    expect((await output(join(folder, "out/comment-program.js"), ...alone)).trimEnd()).toMatch(
      /\nall of them have ended$/,
    );
  });
});
