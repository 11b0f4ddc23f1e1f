import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { ensurePrograms } from "../servers/programs.js";
import { CHROMIUM, CHROMIUM_FLAGS, chromiumPath } from "./chromium.js";
import {
  brokenImages,
  faintText,
  isDark,
  isReady,
  linksAndAnchors,
  pathnames,
  tooWide,
} from "./looked-at.mjs";
import { SEARCH_WORDS } from "./search-words.js";
import { pathOf, ROOT, serveSite } from "./site.js";

/** Not the top of a server: there, a link that ignores where the site is would be found all the same. */
const BASE = "/a/place/";
const SCREENS = { desktop: { width: 1440, height: 900 }, phone: { width: 375, height: 740 } };
const LOOKS = [
  { screen: "desktop", scheme: "light" },
  { screen: "desktop", scheme: "dark" },
  { screen: "phone", scheme: "light" },
  { screen: "phone", scheme: "dark" },
] as const;
const run = promisify(execFile);

let folder: string;
let site: Awaited<ReturnType<typeof serveSite>>;
let browser: Browser;
/** Every page, as in `guide/mutex.html`. */
let addresses: string[];

beforeAll(async () => {
  await ensurePrograms([CHROMIUM]);
  folder = await mkdtemp(join(tmpdir(), "locktender-site-"));
  await run("npm", ["run", "docs", "--", "--base", BASE, "--out", folder], { cwd: ROOT });
  const files = await readdir(folder, { recursive: true });
  addresses = files.filter((file) => file.endsWith(".html") && file !== "404.html").sort();
  site = await serveSite(folder, { base: BASE });
  browser = await chromium.launch({ executablePath: await chromiumPath(), args: [...CHROMIUM_FLAGS] });
}, 300_000);

afterAll(async () => {
  await browser?.close();
  await site?.close();
  await rm(folder, { recursive: true, force: true });
});

/** A window, and what has gone wrong in it so far. */
async function open({ screen, scheme }: (typeof LOOKS)[number] = LOOKS[0]) {
  const isPhone = screen === "phone";
  const context = await browser.newContext({
    viewport: SCREENS[screen],
    colorScheme: scheme,
    hasTouch: isPhone,
    isMobile: isPhone,
  });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const problems: string[] = [];
  const note = (problem: string) => problems.push(`${page.url()}: ${problem}`);
  page.on("pageerror", (error) => note(String(error)));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) note(message.text());
  });
  page.on("request", (request) => {
    const isHere = request.url().startsWith(site.url) || request.url().startsWith("data:");
    if (!isHere) note(`asks for ${request.url()}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400) note(`${response.status()} for ${response.url()}`);
  });
  page.on("requestfailed", (request) => {
    const reason = request.failure()?.errorText ?? "";
    // Pages that are linked are loaded in advance, and that ends when the reader goes on.
    if (reason !== "net::ERR_ABORTED") note(`${reason} for ${request.url()}`);
  });
  return { page, problems };
}

async function visit(page: Page, address: string): Promise<void> {
  await page.goto(site.url + address);
  await page.waitForFunction(isReady);
}

test.for(LOOKS)("every page is whole, %j", { timeout: 240_000 }, async (look) => {
  const { page, problems } = await open(look);
  expect(addresses.length).toBeGreaterThan(60);
  for (const address of addresses) {
    await visit(page, address);
    if ((await page.evaluate(isDark)) !== (look.scheme === "dark"))
      problems.push(`${address}: not ${look.scheme}`);
    for (const look of [brokenImages, tooWide, faintText]) {
      const found = await page.evaluate(look);
      problems.push(...found.map((problem) => `${address}: ${problem}`));
    }
  }
  expect(problems).toEqual([]);
});

test("no link leads to a page or a heading that is not there", { timeout: 240_000 }, async () => {
  const { page } = await open();
  const pathOfLink = (link: string) => new URL(link, site.url).pathname.replace(/\/index\.html$/, "/");
  const anchors = new Map<string, readonly string[]>();
  const links = new Map<string, string>();
  for (const address of addresses) {
    await visit(page, address);
    const found = await page.evaluate(linksAndAnchors);
    anchors.set(pathOfLink(address), found.anchors);
    for (const link of found.links) links.set(link, address);
  }
  const dead = [...links].filter(([link]) => {
    const anchor = decodeURIComponent(new URL(link).hash.slice(1));
    const known = anchors.get(pathOfLink(link));
    return known === undefined || (anchor !== "" && !known.includes(anchor));
  });
  expect(links.size).toBeGreaterThan(100);
  expect(dead).toEqual([]);
});

describe("search", () => {
  test.for(SEARCH_WORDS)("%s leads to %s", async ([words, source], { skip }) => {
    skip(!existsSync(join(ROOT, source)), "this page is not written yet");
    const { page, problems } = await open();
    await visit(page, "");
    await page.getByRole("button", { name: "Search" }).click();
    await page.locator("#localsearch-input").fill(words);
    const results = page.locator("#localsearch-list a.result");
    await results.first().waitFor();
    const address = BASE + pathOf(source).replace(/\.md$/, ".html");
    const found = await results.evaluateAll(pathnames);
    expect(found.slice(0, 3)).toContain(address);
    await results.nth(found.indexOf(address)).click();
    await page.waitForURL(({ pathname }) => pathname === address);
    expect(problems).toEqual([]);
  });
});

test("on a phone the menu leads to a page", async () => {
  const { page, problems } = await open(LOOKS[2]);
  await visit(page, "guide/mutex.html");
  await page.getByRole("button", { name: "Menu" }).click();
  await page.getByRole("link", { name: "Semaphores", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "Semaphores" }).waitFor();
  expect(problems).toEqual([]);
});
