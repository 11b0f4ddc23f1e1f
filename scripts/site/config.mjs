// How VitePress builds the site. It bundles this file, so nothing is imported here but what stands beside it.
import { anchorOf } from "./links.mjs";

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect x="5" y="14" width="22" height="15" rx="3" fill="#1a7f5a"/><path d="M10 14v-3a6 6 0 0 1 12 0v3" fill="none" stroke="#1a7f5a" stroke-width="3"/></svg>`;

/**
 * Pages for those who change the source come after those for its users. VitePress sends the text of this function to
 * the browser, so it has to be whole by itself.
 */
function boostDocument(address) {
  return /\/(adr|api|examples)\/|\/(architecture|CHANGELOG|CONTRIBUTING)\.html/.test(address) ? 0.3 : 1;
}

/** @param {{ sidebar: ReturnType<typeof import("./sidebar.mjs").sidebarOf>, description: string }} about */
export function configOf({ sidebar, description }) {
  return {
    title: "Locktender",
    description,
    lang: "en",
    srcDir: "pages",
    cacheDir: "cache",
    head: [["link", { rel: "icon", href: `data:image/svg+xml,${encodeURIComponent(ICON)}` }]],
    markdown: {
      theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
      anchor: { slugify: anchorOf },
      /** VitePress makes Vue templates of the pages. What stands in double braces is text here, and no expression. */
      config(md) {
        for (const name of ["text", "code_inline"]) {
          const rule = md.renderer.rules[name];
          md.renderer.rules[name] = (...args) => rule(...args).replaceAll("{{", "&#123;&#123;");
        }
      },
    },
    themeConfig: {
      outline: [2, 3],
      search: { provider: "local", options: { miniSearch: { searchOptions: { boostDocument } } } },
      sidebar,
      nav: sidebar.slice(0, 4).map(({ text, items }) => ({ text, link: items[0].link })),
    },
  };
}
