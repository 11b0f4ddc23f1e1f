import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const MOST_LINES = 400;
const START = "npm ci && npm start";
const TEST = "npm ci && npm test";

/** Where the wall clock may be asked, and why. It decides neither expiry nor trust. */
const WALL_CLOCK: Readonly<Record<string, string>> = {
  "src/backends/etcd/endpoint.ts": "gRPC takes its deadlines in it",
  "src/backends/etcd/claim.ts": "since when, for people to see: etcd has no clock to ask",
  "src/backends/etcd/index.ts": "ages, for people to see",
  "src/backends/etcd/rpc.ts": "gRPC takes its deadlines in it",
  "src/backends/memory/index.ts": "the floor of new tickets, so that tokens grow when a process starts anew",
  "src/backends/sqlite/system.ts": "the floor of new tickets, so that tokens grow when a name was forgotten",
  "src/backends/zookeeper/index.ts": "how old a claim is, against the server's wall clock, for people to see",
  "src/testing/suite/bench.ts": "names that no earlier run on the same server has used",
  "src/testing/worker-process.ts": "sets it wrong in a child process, to show that nothing depends on it",
};

const read = (file: string): string => readFileSync(ROOT + file, "utf8");

/** The files that people write, by their path from the root. */
const SOURCES = ["src", "test", "bench", "examples", "scripts"]
  .filter((folder) => existsSync(ROOT + folder))
  .flatMap((folder) => {
    const files = readdirSync(ROOT + folder, { recursive: true, encoding: "utf8" });
    return files.map((file) => `${folder}/${file.replaceAll("\\", "/")}`);
  })
  .filter((file) => /\.([cm]?[jt]s|lua|sql|sh)$/.test(file))
  .sort();
const CODE = SOURCES.filter((file) => file.startsWith("src/"));

const withText = (files: readonly string[], pattern: RegExp): string[] =>
  files.filter((file) => pattern.test(read(file)));

describe("source files", () => {
  test(`none is longer than ${MOST_LINES} lines`, () => {
    const long = SOURCES.filter((file) => read(file).trimEnd().split("\n").length > MOST_LINES);
    expect(long).toEqual([]);
  });

  test("no test keeps the others from running", () => {
    expect(withText(SOURCES, /\b(test|it|describe|suite)(\.\w+)*\.only\b/)).toEqual([]);
  });

  test("the wall clock is asked only where there is a reason to", () => {
    // Both ways: a reason that no file needs any more goes, too.
    expect(withText(CODE, /\bDate\.now\b|\bnew Date\b|\bDate\(/)).toEqual(Object.keys(WALL_CLOCK).sort());
  });

  test("a duration becomes a timer in one place, which clamps it", () => {
    expect(withText(CODE, /\bset(Timeout|Interval)\(/)).toEqual(["src/core/timer.ts"]);
  });

  test("the library prints nothing", () => {
    const files = CODE.filter((file) => !/^src\/(cli|testing\/demo)\b/.test(file));
    // Lines of comments begin with a star: examples may print.
    expect(withText(files, /^(?!\s*\*).*\bconsole\./m)).toEqual([]);
  });
});

describe("the lockfile", () => {
  interface Locked {
    readonly optionalDependencies?: Readonly<Record<string, string>>;
  }
  const text = read("package-lock.json");
  const packages = (JSON.parse(text) as { packages: Readonly<Record<string, Locked>> }).packages;

  test("it names no registry, so that each contributor uses their own", () => {
    expect(text).not.toContain('"resolved"');
    expect(text).not.toMatch(/https?:\/\/[^/"]*(registry|npm|artifact|mirror)/i);
  });

  test("it knows the packages of every platform, without which npm ci refuses it", () => {
    const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies)
        .filter((name) => !(`${path}/node_modules/${name}` in packages || `node_modules/${name}` in packages))
        .map((name) => `${name}, for ${path}`),
    );
    expect(missing).toEqual([]);
  });
});

describe("the two commands", () => {
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Readonly<Record<string, string>> };

  test("README.md tells people to start and to test it with one command each, and no other way", () => {
    expect(existsSync(`${ROOT}README.md`), "README.md must exist, and name both commands").toBe(true);
    const commands = [...read("README.md").matchAll(/npm (?:ci|install|i)\b *(?:&&|;) *[^\n`]+/g)];
    expect([...new Set(commands.map(([command]) => command.trim()))].sort()).toEqual([START, TEST]);
  });

  test("they exist, and so does every file that a script of package.json runs", () => {
    expect(Object.keys(scripts)).toEqual(expect.arrayContaining(["start", "test"]));
    const files = Object.values(scripts).flatMap((script) => script.match(/(?<=\bnode )[\w./-]+/g) ?? []);
    expect(files.filter((file) => !existsSync(ROOT + file))).toEqual([]);
  });

  test("continuous integration runs what people run, and ends as it ends", () => {
    const lines = read(".ci/run").trimEnd().split("\n");
    const commands = lines.filter((line) => /^\s*(npm|npx|node)\b/.test(line));
    const alone = 'node test/support/run-alone.mjs "$LOCKTENDER_FAILED_TESTS"';
    expect(commands).toEqual([`${TEST} || ${alone}`, "npm run test:matrix"]);
    // A command that fails ends it.
    expect(lines).toContain("set -euo pipefail");
    expect(lines.at(-1)).toBe("npm run test:matrix");
    expect(statSync(`${ROOT}.ci/run`).mode & 0o111).toBe(0o111);
  });
});
