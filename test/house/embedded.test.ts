import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const SRC = fileURLToPath(new URL("../../src/", import.meta.url));
const FILES = readdirSync(SRC, { recursive: true, encoding: "utf8" }).sort();
const SCRIPTS = FILES.filter((file) => /\.(lua|sql)$/.test(file));

async function generate(): Promise<Map<string, string>> {
  // A script without types; computing its address keeps the compiler from looking for them.
  const script = new URL("../../scripts/embed.mjs", import.meta.url).href;
  const module = (await import(script)) as { generate(): Map<string, string> };
  return module.generate();
}

/** The comment that a file begins with. */
function headerOf(source: string): string {
  const lines = source.split("\n");
  const end = lines.findIndex((line) => !line.startsWith("--"));
  return lines.slice(0, end === -1 ? undefined : end).join("\n");
}

/** What the header of a script does not say. A piece that is put in front of scripts has their inputs. */
function missingIn(file: string, header: string): string[] {
  if (header === "") return ["a header"];
  if (/put in front of/i.test(header)) return [];
  const needed = file.endsWith(".lua") ? ["KEYS", "ARGV", "Out"] : ["In:", "Out:", "Touches:"];
  return needed.filter((word) => !header.split("\n").some((line) => line.startsWith(`-- ${word} `)));
}

describe("generated modules", () => {
  test("they are what scripts/embed.mjs makes of the .lua and .sql files now", async () => {
    const generated = await generate();
    expect(generated.size).toBeGreaterThan(0);
    for (const [path, content] of generated) expect(readFileSync(path, "utf8"), path).toBe(content);
  });

  test("none is left over from files that are gone", async () => {
    const known = [...(await generate()).keys()];
    const present = FILES.filter((file) => file.endsWith(".generated.ts")).map((file) => SRC + file);
    expect(present.sort()).toEqual(known.sort());
  });
});

describe("server-side code", () => {
  test.each(SCRIPTS)("%s begins with what goes in, what comes out and what it touches", (file) => {
    expect(missingIn(file, headerOf(readFileSync(SRC + file, "utf8")))).toEqual([]);
  });

  test("a script that does not say so is found", () => {
    expect(missingIn("a.lua", headerOf("return 1\n-- KEYS  too late"))).toEqual(["a header"]);
    expect(missingIn("a.lua", headerOf("-- Does it.\n-- KEYS  head\n-- ARGV  id\nreturn 1"))).toEqual([
      "Out",
    ]);
    expect(missingIn("a.sql", headerOf("-- Does it.\n-- Touches: claims\nSELECT 1"))).toEqual([
      "In:",
      "Out:",
    ]);
  });
});
