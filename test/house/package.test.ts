import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { installPacked } from "../support/packed.js";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const TSC = join(ROOT, "node_modules/typescript/bin/tsc");
const SUBPATHS = [
  "",
  "/core",
  "/etcd",
  "/fence",
  "/memory",
  "/mysql",
  "/postgres",
  "/redis",
  "/redlock",
  "/sqlite",
  "/zookeeper",
  "/testing",
].map((path) => `locktender${path}`);
const CLIENTS = [
  "@grpc/grpc-js",
  "@grpc/proto-loader",
  "ioredis",
  "iovalkey",
  "redis",
  "libsql",
  "better-sqlite3",
  "pg",
  "mysql2",
];
const SEALED = '{ "exports": { ".": null, "./*": null } }';

/** Uses every entry, and would not compile if one of them had no types. */
const CONSUMER = `
import { connect, isLockError, type Lease, type Locks, LockTimeoutError } from "locktender";
import { createLocks } from "locktender/core";
import { fence, fenceTable, type Executor } from "locktender/fence";
import { memory } from "locktender/memory";
import { type RedisOptions, redis } from "locktender/redis";
import { type RedlockOptions, redlock } from "locktender/redlock";
import { type SqliteOptions, sqlite } from "locktender/sqlite";
import { type ZooKeeperOptions, zookeeper } from "locktender/zookeeper";
import { startFaultProxy } from "locktender/testing";

const locks: Locks = await connect("memory:", { ttl: "15s" });
const mutex = locks.mutex(["orders", "42"]);
const token: bigint = await mutex.run({ wait: "5s" }, async (lease: Lease) => lease.token);
// @ts-expect-error A duration has a unit that exists.
await mutex.run({ wait: "5 moons" }, () => undefined).catch((error) => isLockError(error, "invalid-option"));
await locks.close();

const own: Locks = createLocks(memory());
await using lease: Lease = await own.mutex("orders").acquire();
const late = await own.mutex("orders").acquire({ wait: 0, within: null }).catch((error: unknown) => error);
const executor: Executor = { dialect: "postgres", query: async () => [{ token: lease.token.toString() }] };
await fence(executor, lease);
const options: [RedisOptions, SqliteOptions] = [{ url: "redis://127.0.0.1" }, { file: "locks.db" }];
const tree: ZooKeeperOptions = { url: "zookeeper://127.0.0.1", acl: "open" };
const quorum: RedlockOptions = { url: "redlock://127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003", maxTtl: "1m" };
const ready = [redis, sqlite, () => redlock(quorum), () => zookeeper(tree), startFaultProxy].every((open) => typeof open === "function");
console.log(token > 0n && lease.held && late instanceof LockTimeoutError && options.length === 2 && fenceTable("mysql") && ready);
`;

const COMMONJS_CONSUMER = `
import locktender = require("locktender");
const open: (url: string) => Promise<locktender.Locks> = locktender.connect;
void open("memory:").then((locks) => locks.mutex("a").run(() => console.log(true)));
`;

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
    const expected = /^(dist\/.+\.(js|d\.ts)|docs\/.+\.md|package\.json|README\.md|CHANGELOG\.md|LICENSE)$/;
    expect(files.filter((file) => !expected.test(file))).toEqual([]);
    const papers = [
      "README.md",
      "CHANGELOG.md",
      "LICENSE",
      ...(await pagesNamedIn(join(installed(), "dist"))),
      ...((await readFile(join(installed(), "README.md"), "utf8")).match(/(?<=\]\()docs\/[^)#]+\.md/g) ?? []),
    ];
    expect(papers).toEqual(expect.arrayContaining(["docs/engines/redis.md", "docs/guide/fencing.md"]));
    expect(papers.filter((file) => !files.includes(file))).toEqual([]);
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
    const problems = result.problems.filter((problem) => {
      // The resolution of Node 10 knows no exports; no supported version of Node or TypeScript uses it.
      if ("resolutionKind" in problem && problem.resolutionKind === "node10") return false;
      if ("resolutionOption" in problem && problem.resolutionOption === "node10") return false;
      return !(problem.kind === "CJSResolvesToESM" && problem.resolutionKind === "node16-cjs");
    });
    expect(problems).toEqual([]);
  });
});

describe.concurrent("whoever installs it", () => {
  test.each([
    { as: "nodenext", options: { module: "nodenext" } },
    { as: "bundler", options: { module: "esnext", moduleResolution: "bundler" } },
  ])("compiles and runs with the types of Node alone: $as", async ({ as, options }) => {
    await compile(as, "main.ts", CONSUMER, { ...options, types: ["node"] });
    expect(await node([`${as}/out/main.js`])).toBe("true\n");
  });

  test("compiles and runs as CommonJS", async () => {
    await compile("commonjs", "main.cts", COMMONJS_CONSUMER, { module: "nodenext", types: ["node"] });
    expect(await node(["commonjs/out/main.cjs"])).toBe("true\n");
  });

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
