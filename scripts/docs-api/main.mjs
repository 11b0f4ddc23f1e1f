// Writes the API reference: a page of docs/api for each subpath of the package, from the comments in src.
//   npm run docs:api
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { runnerImport } from "vite";

const HERE = fileURLToPath(new URL("./", import.meta.url));
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** TypeDoc needs a compiler with an API in JavaScript, which ours has no more: so both stand in a folder of the cache. */
async function installed() {
  const { module } = await runnerImport(join(ROOT, "test/matrix/npm.ts"), { configFile: false });
  return module.pinned("docs-api", HERE);
}

const { exports } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
/** The source of a subpath, without its ending, and the name of its page. */
const pages = new Map(
  Object.entries(exports).flatMap(([path, { types }]) =>
    types === undefined
      ? []
      : [[types.replace("./dist/", "src/").replace(".d.ts", ""), path.slice("./".length) || "locktender"]],
  ),
);

const titleOf = (page) => (page === "locktender" ? page : `locktender/${page}`);

const require = createRequire(join(await installed(), "package.json"));
const { Application } = await import(pathToFileURL(require.resolve("typedoc")).href);
const app = await Application.bootstrapWithPlugins({
  plugin: [pathToFileURL(require.resolve("typedoc-plugin-markdown")).href],
  entryPoints: [...pages.keys()].map((source) => join(ROOT, `${source}.ts`)),
  tsconfig: join(ROOT, "tsconfig.json"),
  basePath: ROOT,
  // What was there before is deleted.
  out: join(ROOT, "docs/api"),
  cleanOutputDir: true,
  name: "API reference",
  readme: "none",
  router: "module",
  disableSources: true,
  excludeExternals: true,
  excludeInternal: true,
  excludePrivate: true,
  hideBreadcrumbs: true,
  hidePageHeader: true,
  useCodeBlocks: true,
  // Two headings may be the same: their links lead to anchors that stand there as they are.
  useHTMLAnchors: true,
  expandObjects: true,
  pageTitleTemplates: { module: ({ name }) => titleOf(name) },
  // Types that are only parts of others have no page: their members stand where they are used.
  validation: { notExported: false, invalidLink: true, notDocumented: false },
  treatWarningsAsErrors: true,
});
const project = await app.convert();
if (project === undefined) process.exit(1);
for (const module of project.children)
  module.name = pages.get(module.name) ?? pages.get(`${module.name}/index`);
app.validate(project);
if (app.logger.hasErrors()) process.exit(1);
await app.generateOutputs(project);
