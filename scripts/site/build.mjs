import { cp, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { fromTests } from "../../bench/lib/from-tests.mjs";
import { withSiteLinks } from "./links.mjs";
import { pathOf, sitePages } from "./pages.mjs";
import { sidebarOf } from "./sidebar.mjs";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const HERE = fileURLToPath(new URL(".", import.meta.url));

/**
 * @param {{ work: string, out: string, base: string }} options a folder for what VitePress reads, one for the site,
 *   and the path below which the site will be served
 */
export async function buildSite({ work, out, base }) {
  const { pages, pictures } = sitePages(ROOT);
  await rm(work, { recursive: true, force: true });
  await writePages(join(work, "pages"), pages);
  for (const picture of pictures) await cp(join(ROOT, picture), join(work, "pages", pathOf(picture)));

  const [home] = pages.filter(({ source }) => source === "README.md");
  const about = { sidebar: sidebarOf(pages), description: firstSentence(home.text) };
  const config = [
    `import { configOf } from ${JSON.stringify(join(HERE, "config.mjs"))};`,
    `export default configOf(${JSON.stringify(about)});`,
  ];
  await cp(join(HERE, "theme"), join(work, ".vitepress/theme"), { recursive: true });
  await writeFile(join(work, ".vitepress/config.mjs"), config.join("\n"));

  const { pinned } = await fromTests("matrix/npm.ts");
  const tools = join(await pinned("site", HERE), "node_modules");
  // The theme and the compiled pages import VitePress and Vue.
  await symlink(tools, join(work, "node_modules"), "dir");
  const { build } = await import(pathToFileURL(join(tools, "vitepress/dist/node/index.js")).href);
  await build(work, { outDir: out, base });
}

/** The pages of the repository, at their places on the site and with links that work there. */
export async function writePages(folder, pages) {
  const placeOf = new Map(pages.map(({ source, path }) => [source, path]));
  for (const page of pages) {
    const file = join(folder, page.path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(
      file,
      withSiteLinks(page, (source) => placeOf.get(source) ?? pathOf(source)),
    );
  }
}

/** Of the first paragraph after the heading. */
function firstSentence(text) {
  return /^# .+\n+(.+?[.])(?= |$)/m.exec(text)?.[1] ?? "";
}
