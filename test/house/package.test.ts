import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { parseAst } from "vite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LOWEST_VERSIONS } from "../support/lowest-versions.js";
import { installPacked } from "../support/packed.js";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const TSC = join(ROOT, "node_modules/typescript/bin/tsc");
const MANIFEST = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
  readonly exports: Readonly<Record<string, { readonly types: string; readonly default: string }>>;
  readonly main: string;
  readonly types: string;
  readonly dependencies?: object;
  readonly optionalDependencies?: object;
  readonly peerDependencies: object;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional?: boolean }>>;
  readonly typesVersions: { readonly "*": Readonly<Record<string, readonly string[]>> };
};
const ENTRIES = Object.entries(MANIFEST.exports).filter(([path]) => path !== "./package.json");
const SUBPATHS = ENTRIES.map(([path]) => path.replace(/^\./, "locktender"));
const CLIENTS = Object.keys(MANIFEST.peerDependencies);
const SEALED = '{ "exports": { ".": null, "./*": null } }';

/** Code for a browser, which is given our locks in place of the platform's. */
const BROWSER_CODE = `
import { connect } from "locktender";

async function save(manager: LockManager): Promise<string> {
  const { held = [] } = await manager.query();
  const tried = await manager.request("save", { ifAvailable: true }, async (lock) => lock?.name ?? "busy");
  await manager.request("save", { mode: "shared", signal: AbortSignal.timeout(1_000) }, (lock) => lock?.mode);
  return manager.request("save", (lock) => \`\${tried} \${lock?.mode} \${held.length}\`);
}

const locks = await connect("memory:");
console.log(await save(locks.web));
await locks.close();
`;

let folder: string;
let tarball: Uint8Array;
/** A project in which nothing but the package is installed: no client library, and no types. */
let project: string;
const installed = () => join(project, "node_modules/locktender");

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "locktender-package-"));
  project = join(folder, "project");
  tarball = await installPacked(project);
  await writeFile(join(project, "package.json"), '{ "type": "module", "private": true }');
  for (const library of CLIENTS) {
    // Sealed in place of absent: without it, both Node and the compiler would search the folders above.
    await mkdir(join(project, "node_modules", library), { recursive: true });
    await writeFile(join(project, "node_modules", library, "package.json"), SEALED);
  }
});

afterAll(() => rm(folder, { recursive: true, force: true }));

describe("the tarball", () => {
  test("it holds the compiled code, its papers, the pages that these and errors point to, and nothing else", async () => {
    const files = await filesIn(installed());
    // No source maps: the compiled code is what people would see by them, with its comments and unshortened.
    const code = /^(dist\/.+\.(js|d\.ts)|examples\/.+\.mjs|package\.json)$/;
    const papers = /^(docs\/.+\.(md|svg)|README\.md|CHANGELOG\.md|CONTRIBUTING\.md|LICENSE)$/;
    expect(files.filter((file) => !code.test(file) && !papers.test(file))).toEqual([]);
    const named = ["README.md", "LICENSE", ...(await pagesNamedIn(join(installed(), "dist")))];
    expect(named).toEqual(expect.arrayContaining(["docs/engines/redis.md"]));
    expect(named.filter((file) => !files.includes(file))).toEqual([]);
  });

  test("npm installs it beside any version of a client library, and each has a lowest one that works", () => {
    expect(new Set(Object.values(MANIFEST.peerDependencies))).toEqual(new Set(["*"]));
    expect(Object.keys(LOWEST_VERSIONS).sort()).toEqual([...CLIENTS].sort());
  });

  test("it brings no other package along", () => {
    const { dependencies, optionalDependencies, peerDependencies, peerDependenciesMeta } = MANIFEST;
    expect({ ...dependencies, ...optionalDependencies }).toEqual({});
    expect(Object.keys(peerDependenciesMeta)).toEqual(Object.keys(peerDependencies));
    expect(Object.values(peerDependenciesMeta).every(({ optional }) => optional)).toBe(true);
  });

  test("every link of its pages leads to something that is in it", async () => {
    const pages = (await filesIn(installed())).filter((file) => file.endsWith(".md"));
    const dead = [];
    for (const page of pages) {
      const text = await readFile(join(installed(), page), "utf8");
      for (const [, inline, reference] of text.matchAll(/\]\((?!\w+:)([^)\s]+)\)|^\[\w+\]: (\S+)$/gm)) {
        const [target = ""] = (inline ?? reference ?? "").split("#");
        const path = target === "" ? page : join(dirname(page), target);
        if (!existsSync(join(installed(), path))) dead.push(`${page} links to ${path}`);
      }
    }
    expect(dead).toEqual([]);
  });

  test("no compiled file is left over from a source that is gone", async () => {
    const sources = await filesIn(join(ROOT, "src"));
    const compiled = (await filesIn(join(installed(), "dist"))).map((file) =>
      file.replace(/(\.d\.ts|\.js)$/, ".ts"),
    );
    expect(compiled.filter((file) => !sources.includes(file))).toEqual([]);
  });

  test("publint has neither an error nor a warning for it", async () => {
    const { messages, pkg } = await publint({
      pkgDir: installed(),
      pack: false,
      strict: true,
      level: "warning",
    });
    expect(messages.map((message) => formatMessage(message, pkg, { color: false }))).toEqual([]);
  });

  test("its types resolve everywhere, and for require() they are those of an ES module", async () => {
    const result = await checkPackage(createPackageFromTarballData(tarball));
    if (result.types === false) throw new Error("the package has no types");
    expect(Object.keys(result.entrypoints)).toHaveLength(SUBPATHS.length + 1);
    const problems = result.problems.filter(
      (problem) => !(problem.kind === "CJSResolvesToESM" && problem.resolutionKind === "node16-cjs"),
    );
    expect(problems).toEqual([]);
  });

  test("compilers that do not know exports find the same types", () => {
    const [[, main], ...others] = ENTRIES as [(typeof ENTRIES)[0], ...typeof ENTRIES];
    expect({ main: MANIFEST.main, types: MANIFEST.types }).toEqual({ main: main.default, types: main.types });
    const paths = others.map(([path, { types }]) => [path.slice("./".length), [types]]);
    expect(MANIFEST.typesVersions).toEqual({ "*": Object.fromEntries(paths) });
  });

  test("no module awaits at its top, which require() would refuse", async () => {
    const files = (await filesIn(join(installed(), "dist"))).filter((file) => file.endsWith(".js"));
    const waiting = [];
    for (const file of files) {
      const code = await readFile(join(installed(), "dist", file), "utf8");
      if (awaitsAtTop(parseAst(code))) waiting.push(file);
    }
    expect(waiting).toEqual([]);
  });

  test.each([
    ["await one;", true],
    ["for await (const one of all);", true],
    ["await using one = two;", true],
    ["{ const one = [await two]; }", true],
    ["async () => await one; class A { async a() { for await (const b of c); } }", false],
  ])("%s awaits at the top: %s", (code, expected) => {
    expect(awaitsAtTop(parseAst(`${code} export {};`))).toBe(expected);
  });
});

describe.concurrent("a project that installs it", () => {
  test("passes our locks to code that was written for navigator.locks", async () => {
    const lib = ["es2022", "esnext.disposable", "dom", "dom.iterable"];
    await compile("browser", "main.ts", BROWSER_CODE, { module: "nodenext", types: ["node"], lib });
    expect(await node(["browser/out/main.js"])).toBe("save exclusive 0\n");
  });

  test("has no client library by accident, neither for Node nor for the compiler", async () => {
    const source = CLIENTS.map((library) => `export * from "${library}";`).join("\n");
    const compiled = compile("clients", "main.ts", source, { module: "nodenext" });
    const missing = await compiled.catch((error: Error) => error.message.match(/TS2307/g));
    expect(missing).toHaveLength(CLIENTS.length);
    for (const library of CLIENTS) {
      await expect(node(["-e", `import("${library}")`]), library).rejects.toThrow("ERR_PACKAGE_PATH");
    }
  });

  test.each(SUBPATHS)("imports and requires %s without any client library", async (path) => {
    const show = (module: string) => `console.log(Object.keys(${module}("${path}")))`;
    const imported = await node(["--input-type=module", "-e", show("await import")]);
    const required = await node(["--input-type=commonjs", "-e", show("require")]);
    expect(imported).toContain("'");
    expect(required).toBe(imported);
  });

  test("loads no engine before connect() asks for one", async () => {
    const bare = join(folder, "bare");
    const engines = join(installed(), "dist/backends");
    const withoutEngines = { recursive: true, filter: (source: string) => source !== engines };
    await cp(installed(), join(bare, "node_modules/locktender"), withoutEngines);
    const load = `await import("locktender/core"); const { connect } = await import("locktender");
      console.log(await connect("memory:").catch((error) => error.code));`;
    expect(await node(["--input-type=module", "-e", load], bare)).toBe("ERR_MODULE_NOT_FOUND\n");
  });
});

/** Of a node of a syntax tree, as far as no function stands in between. */
function awaitsAtTop(node: unknown): boolean {
  if (Array.isArray(node)) return node.some(awaitsAtTop);
  if (typeof node !== "object" || node === null) return false;
  const { type, await: isAwait, kind } = node as { type?: string; await?: unknown; kind?: unknown };
  if (type?.includes("Function")) return false;
  if (type === "AwaitExpression" || isAwait === true || kind === "await using") return true;
  return Object.values(node).some(awaitsAtTop);
}

async function filesIn(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return files.map((file) => file.slice(root.length + 1).replaceAll("\\", "/")).sort();
}

/** The pages that the text of the code, such as that of its errors, sends people to. */
async function pagesNamedIn(root: string): Promise<string[]> {
  const files = await filesIn(root);
  const texts = await Promise.all(files.map((file) => readFile(join(root, file), "utf8")));
  return [...new Set(texts.flatMap((text) => text.match(/\bdocs\/[\w/-]+\.md\b/g) ?? []))];
}

async function compile(name: string, file: string, source: string, options: object): Promise<void> {
  const own = join(project, name);
  await mkdir(join(own, "node_modules/@types"), { recursive: true });
  await symlink(join(ROOT, "node_modules/@types/node"), join(own, "node_modules/@types/node"), "dir");
  await writeFile(join(own, file), source);
  const compilerOptions = {
    target: "es2022",
    lib: ["es2022", "esnext.disposable"],
    strict: true,
    exactOptionalPropertyTypes: true,
    // Our declarations are checked as well, so they cannot lean on a package that is not there.
    skipLibCheck: false,
    outDir: "out",
    rootDir: ".",
    ...options,
  };
  await writeFile(join(own, "tsconfig.json"), JSON.stringify({ compilerOptions, files: [file] }));
  await run(process.execPath, [TSC, "-p", own]).catch((error: { stdout: string }) => {
    throw new Error(error.stdout);
  });
}

async function node(args: readonly string[], cwd = project): Promise<string> {
  const { stdout } = await run(process.execPath, args, { cwd });
  return stdout;
}
