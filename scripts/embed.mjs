// Embeds server-side code into modules, so that the published package needs no files beside its code:
// each folder's .lua or .sql files become one generated module. Run by `npm run build`.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const src = fileURLToPath(new URL("../src/", import.meta.url));
const folders = ["fence", ...readdirSync(`${src}backends`).map((engine) => `backends/${engine}`)];

/** The generated modules: path -> content. A test compares them with what is committed. */
export function generate() {
  const modules = new Map();
  for (const folder of folders) {
    for (const kind of ["lua", "sql"]) {
      const files = readdirSync(`${src}${folder}`)
        .filter((file) => file.endsWith(`.${kind}`))
        .sort();
      if (files.length === 0) continue;
      const entries = files.map((file) => {
        const text = readFileSync(`${src}${folder}/${file}`, "utf8");
        return `  ${JSON.stringify(file.slice(0, -kind.length - 1))}: ${JSON.stringify(text)},\n`;
      });
      const header = `// Generated from the .${kind} files beside it by scripts/embed.mjs; do not edit.\n`;
      modules.set(
        `${src}${folder}/${kind}.generated.ts`,
        `${header}export const ${kind} = {\n${entries.join("")}} as const;\n`,
      );
    }
  }
  return modules;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [path, content] of generate()) writeFileSync(path, content);
}
