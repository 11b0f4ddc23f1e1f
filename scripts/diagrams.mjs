// Draws the pictures of the docs from their data: node scripts/diagrams.mjs
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";
import { flow } from "./diagrams/flow.mjs";
import { timeline } from "./diagrams/timeline.mjs";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const PICTURES = { "claim-life": flow, "lost-lease": timeline };

/** The pictures by their path. */
export function generate() {
  const drawn = Object.entries(PICTURES).map(([name, draw]) => {
    const data = JSON.parse(readFileSync(join(ROOT, "scripts/diagrams", `${name}.json`), "utf8"));
    return [join(ROOT, "docs/diagrams", `${name}.svg`), draw(data)];
  });
  return new Map(drawn);
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  for (const [path, svg] of generate()) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, svg);
    console.log(path);
  }
}
