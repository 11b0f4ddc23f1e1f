import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  anchorOf,
  linksOf,
  outsideOfCode,
  type Page,
  pathOf,
  ROOT,
  sidebarOf,
  sitePages,
  withSiteLinks,
} from "./site.js";

/*
 * What the site is made of, without a build: the matrix builds it, and looks at it in a browser (browser.test.ts).
 */

const { pages, pictures } = sitePages(ROOT);
const placeOf = (all: readonly Page[]) => {
  const places = new Map(all.map(({ source, path }) => [source, path]));
  return (source: string) => places.get(source) ?? pathOf(source);
};

function anchorsOf(text: string): string[] {
  // Markup of a heading is no part of its anchor; the code in it is.
  const lines = text.split("\n");
  const bare = outsideOfCode(text).split("\n");
  const headings = lines.filter((_, index) => /^#+ /.test(bare[index] ?? ""));
  return headings.map((heading) => anchorOf(heading.replace(/^#+ /, "")));
}

describe("the site", () => {
  test("every page of docs stands in the navigation once", () => {
    const links = sidebarOf(pages).flatMap(({ items }) => items.map(({ link }) => link));
    const addresses = pages
      .filter(({ source }) => source.endsWith(".md"))
      .map(({ path }) => `/${path.replace(/\.md$/, "").replace(/(^|\/)index$/, "$1")}`);
    expect(addresses.length).toBeGreaterThan(50);
    expect([...links].sort()).toEqual([...addresses, "/examples/"].sort());
  });

  test("its sections begin with what a new reader needs, and end with the decisions", () => {
    const names = sidebarOf(pages).map(({ text }) => text);
    expect(names.slice(0, 3)).toEqual(["Start", "Guides", "Engines"]);
    expect(names.at(-1)).toBe("Decisions");
    expect(sidebarOf(pages)[0]?.items.map(({ link }) => link)).toEqual([
      "/",
      "/guide/getting-started",
      "/choosing",
    ]);
  });

  test("every link of every page leads to a page, and to a heading that it has", () => {
    const texts = new Map(pages.map((page) => [page.path, withSiteLinks(page, placeOf(pages))]));
    const shown = new Set(pictures.map(pathOf));
    const dead = [...texts].flatMap(([path, text]) =>
      linksOf(text)
        .filter((link) => {
          const [file = "", anchor] = link.split("#");
          const target = file === "" ? path : posix.join(posix.dirname(path), file);
          if (shown.has(target)) return false;
          const found = texts.get(target);
          return found === undefined || (anchor !== undefined && !anchorsOf(found).includes(anchor));
        })
        .map((link) => `${path}: ${link}`),
    );
    expect(dead).toEqual([]);
  });

  test("a program that a page links to is a page", () => {
    const [example] = pages.filter(({ source }) => source === "examples/cron-once.mjs");
    expect(example).toMatchObject({ path: "examples/cron-once.mjs.md", title: "examples/cron-once.mjs" });
    expect(example?.text).toContain('import { connect } from "locktender";');
  });
});

describe("links", () => {
  const rewritten = (text: string, source = "docs/guide/mutex.md") =>
    withSiteLinks({ source, path: pathOf(source), title: "", text }, placeOf(pages));

  test.each([
    ["to a page beside it", "[a](semaphores.md)", "[a](semaphores.md)"],
    ["to the README", "[a](../../README.md#errors)", "[a](../index.md#errors)"],
    ["to a paper of the repository", "[a](../../CONTRIBUTING.md)", "[a](../CONTRIBUTING.md)"],
    ["to a folder", "[a](../adr)", "[a](../adr/index.md)"],
    ["to a program", "[a](../../examples/observe.mjs)", "[a](../examples/observe.mjs.md)"],
    ["to a picture", "![a](../plots/one-key.svg)", "![a](../plots/one-key.svg)"],
    ["that is named", "[a][b]\n\n[b]: ../../CHANGELOG.md", "[a][b]\n\n[b]: ../CHANGELOG.md"],
    ["to a heading of the page", "[a](#strict-order-fair)", "[a](#strict-order-fair)"],
    ["to another site", "[a](https://semver.org/b.md)", "[a](https://semver.org/b.md)"],
  ])("a link %s works on the site", (_, text, expected) => {
    expect(rewritten(text)).toBe(expected);
  });

  test("those of the README lead down from the top", () => {
    const text = "[a](docs/guide/mutex.md) ![b](docs/plots/one-key.svg) [c](examples)";
    const expected = "[a](guide/mutex.md) ![b](plots/one-key.svg) [c](examples/index.md)";
    expect(rewritten(text, "README.md")).toBe(expected);
  });

  test.each(["`[a](../adr)`", "```ts\n[a](../adr)\n```", "````text\n```\n[a](../adr)\n```\n````"])(
    "code stays as it is: %j",
    (text) => {
      expect(rewritten(text)).toBe(text);
    },
  );

  test("one that leads nowhere ends the build", async () => {
    const root = await mkdtemp(join(tmpdir(), "locktender-site-"));
    onTestFinished(() => rm(root, { recursive: true, force: true }));
    const files = {
      "README.md": "[a](docs/a.md)",
      "CHANGELOG.md": "",
      "CONTRIBUTING.md": "",
      "docs/a.md": "[b](b.mjs)",
    };
    for (const [file, text] of Object.entries(files)) {
      await mkdir(dirname(join(root, file)), { recursive: true });
      await writeFile(join(root, file), text);
    }
    expect(() => sitePages(root)).toThrow("docs/a.md links to b.mjs, which is not there");
    await writeFile(join(root, "docs/b.mjs"), "");
    expect(sitePages(root).pages.map(({ path }) => path)).toContain("b.mjs.md");
  });
});
