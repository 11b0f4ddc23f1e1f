import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { pageOf } from "./page.mjs";
import { plotsOf } from "./plots.mjs";
import { newestRun } from "./run.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const PAGE = join(ROOT, "docs/benchmarks.md");
const [BEGIN, END] = ["<!-- measured: written by npm run bench -- publish -->\n", "<!-- end -->"];

/** What docs show of a run, by path: the plots, and the page with the numbers between its two comments. */
export function generate(run = newestRun()) {
  const files = new Map();
  for (const [name, svg] of Object.entries(plotsOf(run))) files.set(join(ROOT, "docs/plots", name), svg);
  const [before, rest = ""] = readFileSync(PAGE, "utf8").split(BEGIN);
  const after = rest.split(END)[1];
  if (after === undefined) throw new Error(`${PAGE} has lost its comments ${BEGIN.trim()} and ${END}`);
  files.set(PAGE, `${before}${BEGIN}\n${pageOf(run)}\n${END}${after}`);
  return files;
}

export async function publish() {
  const files = generate();
  for (const [path, content] of files) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, content);
  }
  return files.keys();
}
