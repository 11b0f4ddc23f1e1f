import { fileURLToPath } from "node:url";
// @ts-expect-error A script without types.
import * as links from "../../scripts/site/links.mjs";
// @ts-expect-error A script without types.
import * as pages from "../../scripts/site/pages.mjs";
// @ts-expect-error A script without types.
import * as serve from "../../scripts/site/serve.mjs";
// @ts-expect-error A script without types.
import * as sidebar from "../../scripts/site/sidebar.mjs";

/** The scripts that make the site, as they describe themselves. */

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

export interface Page {
  readonly source: string;
  readonly path: string;
  readonly title: string;
  readonly text: string;
}

export interface Section {
  readonly text: string;
  readonly items: readonly { readonly text: string; readonly link: string }[];
}

export const sitePages = pages.sitePages as (root: string) => {
  readonly pages: readonly Page[];
  readonly pictures: readonly string[];
};
export const pathOf = pages.pathOf as (source: string) => string;
export const sidebarOf = sidebar.sidebarOf as (pages: readonly Page[]) => readonly Section[];
export const linksOf = links.linksOf as (text: string) => string[];
export const outsideOfCode = links.outsideOfCode as (text: string) => string;
export const anchorOf = links.anchorOf as (heading: string) => string;
export const withSiteLinks = links.withSiteLinks as (
  page: Page,
  pathOf: (source: string) => string,
) => string;
export const serveSite = serve.serveSite as (
  folder: string,
  options?: { base?: string; port?: number },
) => Promise<{ readonly url: string; close(): Promise<void> }>;
