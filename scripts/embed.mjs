// Embeds server-side code into modules, so that the published package needs no files beside its code: each folder's
// .lua or .sql files become one generated module. Run by `npm run build`.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { routinesModule } from "./sql-module.mjs";
import { parseSections } from "./sql-routines.mjs";

const src = fileURLToPath(new URL("../src/", import.meta.url));
const folders = ["fence", ...readdirSync(`${src}backends`).map((engine) => `backends/${engine}`)];

/** The generated modules: path -> content. A test compares them with what is committed. */
export function generate() {
  const modules = new Map();
  for (const folder of folders) {
    for (const kind of ["lua", "sql"]) {
      const files = readdirSync(`${src}${folder}`).filter((file) => file.endsWith(`.${kind}`));
      const texts = new Map(
        files.sort().map((file) => [file, readFileSync(`${src}${folder}/${file}`, "utf8")]),
      );
      if (texts.size === 0) continue;
      const header = `// Generated from the .${kind} files beside it by scripts/embed.mjs; do not edit.\n`;
      const areOperations = texts.has("shared.sql");
      const name = areOperations ? "routines" : kind;
      const content = areOperations ? routinesModule(texts) : textsModule(kind, texts);
      modules.set(`${src}${folder}/${name}.generated.ts`, `${header}${content}`);
    }
  }
  return modules;
}

/** The texts of the files as they are; of sections.sql, the statements. */
function textsModule(kind, files) {
  const texts = [...files].filter(([file]) => file !== "sections.sql");
  const names = texts.map(([file, text]) => [file.slice(0, -kind.length - 1), text]);
  const sections = parseSections("sections.sql", files.get("sections.sql") ?? "--\n");
  const statements = [...sections.values()].map(({ name, statement }) => [name, statement]);
  const modules = [exported(kind, names)];
  if (statements.length > 0) modules.push(exported("sections", statements));
  return modules.join("");
}

function exported(name, texts) {
  const entries = texts.map(([key, text]) => `  ${JSON.stringify(key)}: ${JSON.stringify(text)},\n`);
  return `export const ${name} = {\n${entries.join("")}} as const;\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [path, content] of generate()) writeFileSync(path, content);
}
