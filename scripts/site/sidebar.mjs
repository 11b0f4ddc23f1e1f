import { titleOfFolder } from "./pages.mjs";

/** Pages with which a reader begins. The sections after that are folders. */
const START = ["README.md", "docs/guide/getting-started.md", "docs/choosing.md"];
const FIRST = ["docs/guide", "docs/engines"];
const LAST = ["docs/api", "docs/adr"];

/**
 * The navigation: start, guides, engines, folders of docs that have no place of their own here, reference, decisions.
 * Within a section pages stand in the order in which they are given.
 * @param {readonly import("./pages.mjs").Page[]} pages
 * @returns {{ text: string, collapsed: boolean, items: { text: string, link: string }[] }[]}
 */
export function sidebarOf(pages) {
  const start = START.flatMap((source) => pages.filter((page) => page.source === source));
  const others = pages.filter((page) => !start.includes(page));
  const ofFolder = (folder) => {
    const inside = others.filter(({ source }) => source.startsWith(`${folder}/`));
    return section(titleOfFolder(folder), inside, LAST.includes(folder));
  };
  const folders = new Set(others.flatMap(({ source }) => /^docs\/[^/]+(?=\/)/.exec(source) ?? []));
  const unplaced = [...folders].filter((folder) => !FIRST.includes(folder) && !LAST.includes(folder));
  const top = others.filter(({ source }) => /^(docs\/)?[^/]+\.md$/.test(source));
  // The programs themselves are reached from their list, and from the pages that speak of them.
  const examples = others.filter(({ source }) => source === "examples");
  return [
    section("Start", start),
    ...[...FIRST, ...unplaced].map(ofFolder),
    section("Reference", [...top, ...examples]),
    ...LAST.map(ofFolder),
  ].filter(({ items }) => items.length > 0);
}

function section(text, pages, collapsed = false) {
  return { text, collapsed, items: pages.map(({ title, path }) => ({ text: title, link: addressOf(path) })) };
}

/** As VitePress wants it: `/guide/mutex`, and `/api/` for the first page of a folder. */
function addressOf(path) {
  return `/${path.replace(/(^|\/)index\.md$/, "$1").replace(/\.md$/, "")}`;
}
