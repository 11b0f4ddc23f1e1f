// Which pages the site has. Every Markdown page of the repository becomes one, with README.md as the home page; and
// every other file or folder that a page links to, so that no link of a page has to leave the site.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, extname, join, posix } from "node:path";
import { linksInOrder, linksOf, targetOf } from "./links.mjs";

const PAPERS = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"];
const LANGUAGES = {
  cjs: "js",
  js: "js",
  json: "json",
  lua: "lua",
  mjs: "js",
  sh: "sh",
  sql: "sql",
  ts: "ts",
};
const FOLDER_TITLES = { "docs/adr": "Decisions", "docs/api": "API", "docs/guide": "Guides" };
/** What a browser shows itself. */
const PICTURE = /\.(gif|jpe?g|png|svg|webp)$/;

/**
 * @typedef {object} Page
 * @property {string} source its file or folder, by the path from the root of the repository
 * @property {string} path where it is on the site, with `.md` at its end
 * @property {string} title
 * @property {string} text Markdown, with the links that its source has
 */

/**
 * @param {string} root the folder of the repository
 * @returns {{ pages: Page[], pictures: string[] }} the pages, in the order in which README.md leads to them; and the
 *   pictures that they show
 */
export function sitePages(root) {
  const found = new Map(markdownFiles(root).map((source) => [source, markdownPage(root, source)]));
  const pictures = new Set();
  // A page that is added has links, too, and is visited after the others.
  for (const page of found.values()) {
    for (const link of linksOf(page.text)) {
      const target = targetOf(page.source, link);
      if (target === undefined || found.has(target)) continue;
      const entry = statSync(join(root, target), { throwIfNoEntry: false });
      if (entry === undefined) throw new Error(`${page.source} links to ${link}, which is not there`);
      if (PICTURE.test(target)) pictures.add(target);
      else found.set(target, entry.isDirectory() ? list(root, target) : shown(root, target));
    }
  }
  return { pages: [...found.values()], pictures: [...pictures] };
}

function markdownFiles(root) {
  const all = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".md"))
    .map((file) => posix.join("docs", file.replaceAll("\\", "/")))
    .sort();
  // README.md ends with a list of the pages, in the order in which they are read.
  const listed = linksInOrder(readFileSync(join(root, "README.md"), "utf8")).map((link) =>
    targetOf("README.md", link),
  );
  const rank = (file) => (listed.includes(file) ? listed.lastIndexOf(file) : listed.length);
  return [...PAPERS, ...all].sort((one, other) => rank(one) - rank(other));
}

function markdownPage(root, source) {
  const text = readFileSync(join(root, source), "utf8");
  return { source, path: pathOf(source), title: titleOf(text) ?? source, text };
}

/** A program, as text. */
function shown(root, source) {
  const text = readFileSync(join(root, source), "utf8").trimEnd();
  const language = LANGUAGES[extname(source).slice(1)] ?? "text";
  // A program may have a fence in it, in a comment.
  const fence = "`".repeat(4);
  return {
    source,
    path: `${pathOf(source)}.md`,
    title: source,
    text: `# ${source}\n\n${fence}${language}\n${text}\n${fence}\n`,
  };
}

/** What is in a folder. */
function list(root, source) {
  const entries = readdirSync(join(root, source), { withFileTypes: true }).filter(
    ({ name }) => !name.startsWith("."),
  );
  const lines = entries.map((entry) => {
    const about = entry.isDirectory() ? "" : summaryOf(readFileSync(join(root, source, entry.name), "utf8"));
    return `- [${entry.name}${entry.isDirectory() ? "/" : ""}](${basename(source)}/${entry.name})${about && `: ${about}`}`;
  });
  const title = titleOfFolder(source);
  const path = posix.join(pathOf(source), "index.md");
  return { source, path, title, text: `# ${title}\n\n${lines.join("\n")}\n` };
}

/** As readers know it. */
export function titleOfFolder(source) {
  const name = source.replace(/^docs\//, "");
  return FOLDER_TITLES[source] ?? name.charAt(0).toUpperCase() + name.slice(1);
}

/** The heading of a page, or the sentence that a program begins with. */
function summaryOf(text) {
  const comment = /^(\/\/ .+\n)+/
    .exec(text)?.[0]
    .replaceAll(/^\/\/ +/gm, "")
    .replaceAll("\n", " ");
  return titleOf(text) ?? /^.*?[.:](?= |$)/.exec(comment ?? "")?.[0].replace(/[.:]$/, "") ?? "";
}

function titleOf(text) {
  const [, title] = /^# (.+)$/m.exec(text) ?? [];
  return title?.replaceAll(/[`*]/g, "");
}

/** On the site the pages of docs stand at the top. */
export function pathOf(source) {
  const path = source.replace(/^docs\//, "");
  return basename(path) === "README.md" ? posix.join(posix.dirname(path), "index.md") : path;
}
