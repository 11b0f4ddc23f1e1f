import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { connect } from "locktender";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MATRIX_ONLY } from "../matrix/matrix.js";
import { shared } from "../servers/shared.js";
import { blocksOf, filesOf, PAGES, PROJECTS, programs, ROOT, withoutNumbers } from "./blocks.js";
import { makeProject, TSC } from "./project.js";

const run = promisify(execFile);
const PROGRAMS = programs();
const fileOf = (index: number): string => `block-${index + 1}`;

let folder: string;
let compiled: { ok: boolean; output: string };

beforeAll(async () => {
  const { url } = await shared("redis");
  const sources = new Map<string, string>();
  for (const [index, { text }] of PROGRAMS.entries()) {
    const source = text
      .replaceAll("redis://127.0.0.1:6379", url)
      .replaceAll("etcd://127.0.0.1:2379", (await shared("etcd")).url)
      .replaceAll("postgres://127.0.0.1:5432", (await shared("postgres")).url)
      .replaceAll("mysql://127.0.0.1:3306/locks", (await shared("mariadb")).url)
      .replaceAll("zookeeper://127.0.0.1:2181", (await shared("zookeeper")).url)
      .replaceAll(/redlock:\/\/[\d.:,]+/g, (await shared("redlock")).url)
      .replaceAll("port: 6379", `port: ${new URL(url).port}`);
    sources.set(`${fileOf(index)}.ts`, source);
  }
  folder = await makeProject("pages", "page-globals.ts", sources);
  compiled = await compile();
});

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function compile(): Promise<{ ok: boolean; output: string }> {
  const outcome = await run(process.execPath, [TSC, "-p", folder]).then(
    () => ({ ok: true, output: "" }),
    (error: { stdout: string }) => ({ ok: false, output: error.stdout }),
  );
  // Errors name our files; people look for the page.
  const output = outcome.output.replace(/\S*block-(\d+)\.ts/g, (_, number: string) => {
    return `${PROGRAMS[Number(number) - 1]?.at} `;
  });
  return { ok: outcome.ok, output };
}

/** Each in a folder of its own, so that files they make, also the default lock file, are their own. */
async function perform(index: number): Promise<string> {
  const cwd = await mkdtemp(join(folder, "run-"));
  const out = join(folder, "out");
  const args = ["--import", join(out, "page-globals.js"), join(out, `${fileOf(index)}.js`)];
  const { stdout, stderr } = await run(process.execPath, args, {
    cwd,
    env: { ...process.env, XDG_STATE_HOME: cwd, NODE_OPTIONS: "" },
    timeout: 20_000,
  });
  return stdout + stderr;
}

/** As links name them. */
async function headingsOf(page: string): Promise<string[]> {
  const lines = (await readFile(page, "utf8")).matchAll(/^#+ (.*)$/gm);
  return [...lines].map(([, text = ""]) =>
    text
      .toLowerCase()
      .replace(/[^\w\s-]/g, "")
      .replaceAll(" ", "-"),
  );
}

describe("the code in our pages", () => {
  test("it compiles, as strictly as our own", () => {
    expect(PROGRAMS.length).toBeGreaterThan(10);
    expect(compiled.output).toBe("");
    expect(compiled.ok).toBe(true);
  });

  test.concurrent.each(PROGRAMS.map((program, index) => [program.at, program, index] as const))(
    "%s runs to its end, and prints what the page says",
    async (_, { prints }, index) => {
      const printed = await perform(index);
      if (prints !== undefined) expect(withoutNumbers(printed)).toBe(withoutNumbers(prints));
    },
  );

  test("a page cannot hide code from us by calling it something else", () => {
    // These have configurations or other libraries, which test/bundlers, test/test-tools and test/migration run.
    const configured = /^docs\/guide\/(bundlers|testing|migrating.*)\.md$/;
    const pages = PAGES.filter((page) => !configured.test(page));
    const languages = new Set(pages.flatMap(blocksOf).map(({ language }) => language));
    expect([...languages].filter((language) => !["ts", "text", "sh"].includes(language))).toEqual([]);
  });

  test("the files of a project with packages of its own are run by the matrix", async () => {
    expect(MATRIX_ONLY).toEqual(expect.arrayContaining(Object.values(PROJECTS)));
    for (const [page, test] of Object.entries(PROJECTS)) {
      expect(filesOf(page).size, page).toBeGreaterThan(0);
      // A test gets all files of its page, and names the page for that.
      expect(await readFile(ROOT + test, "utf8")).toContain(`"${page}"`);
    }
  });

  test("every link between our pages leads somewhere", async () => {
    for (const page of PAGES) {
      const source = await readFile(ROOT + page, "utf8");
      const links = [...source.matchAll(/\]\((?!\w+:)([^)\s]+)\)|^\[\w+\]: (\S+)$/gm)];
      for (const [, inline, reference] of links) {
        const [file = "", heading] = (inline ?? reference ?? "").split("#");
        const target = file === "" ? ROOT + page : join(dirname(ROOT + page), file);
        expect(existsSync(target), `${page} links to ${target}`).toBe(true);
        if (heading !== undefined) expect(await headingsOf(target)).toContain(heading);
      }
    }
  });
});

describe("README.md", () => {
  test("leads to every guide and every engine", async () => {
    const links = await readFile(`${ROOT}README.md`, "utf8");
    const pages = PAGES.filter((page) => /^docs\/(guide|engines)\//.test(page));
    expect(pages.filter((page) => !links.includes(page))).toEqual([]);
  });

  test("the refusal that it shows is the one of the page about it", () => {
    const refusals = ["README.md", "docs/guide/fencing.md"].map((page) =>
      blocksOf(page).find(({ text }) => text.startsWith("StaleTokenError")),
    );
    expect(refusals[0]?.text).toBe(refusals[1]?.text);
  });

  test("it is short enough to be read", async () => {
    const text = await readFile(`${ROOT}README.md`, "utf8");
    expect(text.split("\n").length).toBeLessThanOrEqual(121);
    expect(text.split(/\s+/).length).toBeLessThanOrEqual(900);
  });

  test("the timeout error that it shows is the one that people get", async () => {
    const shown = blocksOf("README.md").find(({ text }) => text.startsWith("LockTimeoutError"));
    await using shop = await connect(`sqlite:${join(folder, "locks.db")}`, {
      owner: { service: "checkout" },
    });
    const lamp = shop.mutex(["stock", "lamp"]);
    await using _holder = await lamp.acquire({ note: "order 42" });
    const others = [lamp, lamp].map((lock) => lock.acquire({ wait: "1s" }).catch(() => undefined));
    const error: unknown = await lamp.acquire({ wait: "300ms" }).catch((reason: unknown) => reason);
    expect(withoutNumbers(String(error))).toBe(withoutNumbers(shown?.text ?? ""));
    await Promise.all(others);
  });
});
