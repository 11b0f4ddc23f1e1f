import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const PAGE = "docs/guide/how-it-works.md";

const { generate } = (await import(new URL("../../scripts/diagrams.mjs", import.meta.url).href)) as {
  generate(): Map<string, string>;
};

describe("docs/diagrams", () => {
  const files = generate();

  test("each picture is what node scripts/diagrams.mjs makes of its data now", () => {
    expect(files.size).toBe(2);
    for (const [path, svg] of files) expect(readFileSync(path, "utf8"), path).toBe(svg);
  });

  test("no picture is left over, and each is shown", () => {
    const present = readdirSync(`${ROOT}docs/diagrams`).map((file) => `${ROOT}docs/diagrams/${file}`);
    expect(present.sort()).toEqual([...files.keys()].sort());
    const shown = [...readFileSync(ROOT + PAGE, "utf8").matchAll(/!\[.+\]\(\.\.\/(diagrams\/.+)\)/g)];
    expect(shown.map(([, path]) => `${ROOT}docs/${path}`).sort()).toEqual(present);
  });

  test.each([...files])(
    "%s has text, words for readers who do not see it, and colours for dark ground",
    (_, svg) => {
      expect(svg).toMatch(/<desc>.{100,}<\/desc>/);
      expect(svg.match(/<text/g)?.length).toBeGreaterThan(10);
      expect(svg).toContain("@media (prefers-color-scheme: dark)");
      // Nothing is fetched, and no ground of its own hides that of the page.
      expect(svg).not.toMatch(/href|url\(|@import|<image/);
      const [, width = "", , other] = /viewBox="-8 -8 (\d+) ([\d.]+)" width="(\d+)"/.exec(svg) ?? [];
      expect(width).toBe(other);
      // Wider, its text would be too small on a phone.
      expect(Number(width)).toBeLessThan(500);
    },
  );

  test("the tokens are tickets times 1024, and the late one is the smaller one", () => {
    const svg = files.get(`${ROOT}docs/diagrams/lost-lease.svg`) ?? "";
    const tokens = [...svg.matchAll(/token (\d+)</g)].map(([, token]) => Number(token));
    expect([...new Set(tokens)]).toEqual([7 * 1024, 8 * 1024]);
    expect(tokens.at(-1)).toBe(7 * 1024);
    expect(readFileSync(ROOT + PAGE, "utf8")).toMatch(/ticket 7 gives 7168, ticket 8 gives 8192/);
  });
});
