// Links are written as they work in the repository: to files, by relative paths. On the site these lead to pages.
import { posix } from "node:path";

/** `[text](target)`, `![text](target)` and `[name]: target`. */
const LINK = /(?<=\]\()(?!\w+:)[^)\s]+(?=\))|(?<=^\[[^\]\n]+\]: )(?!\w+:)\S+$/gm;
const DEFINITION = /^\[(\w+)\]: (\S+)$/gm;
/** Fenced code first, since it may have a backtick in it. */
const CODE = /^(?<fence>```+)[\s\S]*?^\k<fence>$|(?<ticks>`+)(?!`)[^\n]*?(?<!`)\k<ticks>(?!`)/gm;

/** The links of a page to files and headings of the repository, in the order in which they stand. */
export function linksOf(text) {
  return [...outsideOfCode(text).matchAll(LINK)].map(([link]) => link);
}

/** The same, where `[text][name]` stands instead of where `[name]: target` does. */
export function linksInOrder(text) {
  const targets = new Map([...text.matchAll(DEFINITION)].map(([, name, target]) => [name, target]));
  const inline = text
    .replaceAll(DEFINITION, "")
    .replaceAll(/\]\[(\w+)\]/g, (_, name) => `](${targets.get(name)})`);
  return linksOf(inline);
}

/** The page with its code blanked out, everything at its place. */
export function outsideOfCode(text) {
  return text.replace(CODE, (code) => code.replaceAll(/[^\n]/g, " "));
}

/** The file or folder that a link of a file leads to. Nothing if it leads to a heading of the same page. */
export function targetOf(source, link) {
  const [file = ""] = link.split("#");
  if (file === "") return undefined;
  return posix.join(posix.dirname(source), file).replace(/\/$/, "");
}

/**
 * @param {{ source: string, path: string, text: string }} page
 * @param {(source: string) => string} pathOf where a file or folder is on the site
 * @returns {string} the text, with links that work on the site
 */
export function withSiteLinks({ source, path, text }, pathOf) {
  const bare = outsideOfCode(text);
  let end = 0;
  let result = "";
  for (const { 0: link, index } of bare.matchAll(LINK)) {
    const target = targetOf(source, link);
    const hash = link.includes("#") ? link.slice(link.indexOf("#")) : "";
    const file = target === undefined ? "" : posix.relative(posix.dirname(path), pathOf(target));
    result += text.slice(end, index) + file + hash;
    end = index + link.length;
  }
  return result + text.slice(end);
}

/** The anchor of a heading, as the services that show repositories make it. */
export function anchorOf(heading) {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\p{M}\s_-]/gu, "")
    .replaceAll(" ", "-");
}
