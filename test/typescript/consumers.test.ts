import { execFile } from "node:child_process";
import { copyFile, cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { INSTALLED, installPacked } from "../support/packed.js";

const run = promisify(execFile);

/** The folder of packages with the compiler and the types of Node.js. The matrix names others than ours. */
const FROM = process.env.LOCKTENDER_TEST_TYPESCRIPT_FROM ?? INSTALLED;
const COMPILER = join(FROM, "typescript");
const { version } = JSON.parse(await readFile(join(COMPILER, "package.json"), "utf8")) as { version: string };
const [major = 0, minor = 0] = version.split(".").map(Number);

/** From 5.8 on it knows that Node.js can `require` an ES module. */
const KNOWS_REQUIRE = major > 5 || minor >= 8;
const HAS_NODE10 = major < 7;
const DEPRECATED = major === 6 ? { ignoreDeprecations: "6.0" } : {};

const SAYS = "true true function etcd mysql postgres redis redlock sqlite zookeeper\n";

/** Without `require`: as the compiler advises where it does not know that. */
const DYNAMIC = `
async function main(): Promise<void> {
  const { connect } = await import("locktender");
  const { memory } = await import("locktender/memory");
  const locks = await connect("memory:");
  const token: bigint = await locks.mutex("a").run((lease) => lease.token);
  console.log(typeof token, typeof memory);
}
void main();
`;

interface Way {
  readonly type: "commonjs" | "module";
  readonly options: object;
  readonly source?: string;
  readonly says?: string;
}

const WAYS: Readonly<Record<string, Way>> = {
  "CommonJS, module commonjs": { type: "commonjs", options: { module: "commonjs" } },
  ...(HAS_NODE10 && {
    "CommonJS, node10": {
      type: "commonjs",
      options: { module: "commonjs", moduleResolution: "node10", ...DEPRECATED },
    },
  }),
  "CommonJS, nodenext": {
    type: "commonjs",
    options: { module: "nodenext" },
    ...(!KNOWS_REQUIRE && { source: DYNAMIC, says: "bigint function\n" }),
  },
  "ES module, nodenext": { type: "module", options: { module: "nodenext" } },
  "ES module, bundler": { type: "module", options: { module: "esnext", moduleResolution: "bundler" } },
};

let project: string;

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), "locktender-typescript-"));
  await installPacked(project);
  await mkdir(join(project, "node_modules/@types"), { recursive: true });
  for (const name of ["@types/node", "undici-types"]) {
    await cp(join(FROM, name), join(project, "node_modules", name), { recursive: true });
  }
});

afterAll(() => rm(project, { recursive: true, force: true }));

describe.concurrent(`TypeScript ${version}, without any client library`, () => {
  test.each(Object.entries(WAYS))("compiles, and what it compiled runs: %s", async (name, way) => {
    const folder = await compile(name.replace(/\W+/g, "-"), way);
    const { stdout } = await run(process.execPath, ["out/main.js"], { cwd: folder });
    expect(stdout).toBe(way.says ?? SAYS);
  });
});

async function compile(name: string, { type, options, source }: Way): Promise<string> {
  const folder = join(project, name);
  await mkdir(folder);
  await writeFile(join(folder, "package.json"), JSON.stringify({ type }));
  if (source !== undefined) await writeFile(join(folder, "main.ts"), source);
  else await copyFile(fileURLToPath(new URL("consumer.ts", import.meta.url)), join(folder, "main.ts"));
  const compilerOptions = {
    target: "es2022",
    lib: ["es2022", "esnext.disposable"],
    types: ["node"],
    strict: true,
    exactOptionalPropertyTypes: true,
    // Our declarations are checked as well, so they cannot lean on a package that is not there.
    skipLibCheck: false,
    outDir: "out",
    rootDir: ".",
    ...options,
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["main.ts"] }));
  await run(process.execPath, [join(COMPILER, "bin/tsc"), "-p", folder]).catch(
    (error: { stdout: string }) => {
      throw new Error(error.stdout);
    },
  );
  return folder;
}
