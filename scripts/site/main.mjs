// npm run docs: builds the site of the pages.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { buildSite, ROOT } from "./build.mjs";
import { serveSite } from "./serve.mjs";

const USAGE = `usage: npm run docs -- [--base /path/] [--out folder] [--serve]

Builds the site into a folder, .site/html unless --out names another one. Any server of plain files can serve it.
--base   the path below which it will be served, with a slash at both ends; / if it is not given
--serve  shows it on this machine when it is built
`;

try {
  const { values } = parseArgs({
    options: {
      base: { type: "string", default: "/" },
      out: { type: "string", default: join(ROOT, ".site/html") },
      serve: { type: "boolean", default: false },
    },
  });
  if (!/^\/([^/]+\/)*$/.test(values.base))
    throw new Error(`--base ${values.base}: a path has a slash at both ends.`);
  await main(values);
} catch (error) {
  console.error(String(error.code).startsWith("ERR_PARSE_ARGS") ? `${error.message}\n\n${USAGE}` : error);
  process.exitCode = 1;
}

async function main({ base, out, serve }) {
  await buildSite({ work: join(ROOT, ".site/work"), out, base });
  console.log(`the site is in ${out}`);
  if (serve)
    console.log(`look at ${(await serveSite(out, { base, port: 4173 })).url} and end it with Ctrl+C`);
}
