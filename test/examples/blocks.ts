import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** A fenced block of a page, with what the page says about it. */
export interface Block {
  /** As in `README.md:12`, so that people find it. */
  readonly at: string;
  readonly language: string;
  readonly text: string;
  /** The text of the page between the block before it and this one. */
  readonly before: string;
}

/** Every page of ours. */
export const PAGES = [
  ...["README.md", "CHANGELOG.md", "CONTRIBUTING.md"],
  ...["docs", "docs/guide", "docs/engines", "docs/adr"].flatMap((folder) =>
    readdirSync(ROOT + folder)
      .filter((file) => file.endsWith(".md"))
      .sort()
      .map((file) => `${folder}/${file}`),
  ),
];

export function blocksOf(page: string): Block[] {
  const source = readFileSync(ROOT + page, "utf8");
  const blocks: Block[] = [];
  let end = 0;
  for (const match of source.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)) {
    const [whole, language = "", text = ""] = match;
    const line = source.slice(0, match.index).split("\n").length;
    blocks.push({ at: `${page}:${line}`, language, text, before: source.slice(end, match.index) });
    end = match.index + whole.length;
  }
  return blocks;
}

export interface Program extends Block {
  /** What the page says that it prints: a `text` block that follows with nothing in between. */
  readonly prints: string | undefined;
}

/**
 * Pages that show files of a project with packages that are none of ours, and the tests that make this project of all
 * of these files, and run it. The matrix installs the packages.
 */
export const PROJECTS: Readonly<Record<string, string>> = {
  "docs/guide/bullmq.md": "test/frameworks/bullmq.test.ts",
  "docs/guide/cron.md": "test/frameworks/cron.test.ts",
  "docs/guide/nestjs.md": "test/frameworks/nestjs.test.ts",
  "docs/guide/nextjs.md": "test/frameworks/nextjs.test.ts",
};

/** The name of the file that a block is: its first line, as a comment. */
function fileIn({ text }: Block): string | undefined {
  return /^\/\/ (\S+\.[cm]?[jt]sx?)$/m.exec(text.split("\n", 1)[0] ?? "")?.[1];
}

/** The files that a page shows, with what the page says that they print. */
export function filesOf(page: string): ReadonlyMap<string, Program> {
  const files = programsOf(page).map((program) => [fileIn(program), program] as const);
  return new Map(files.filter((file): file is [string, Program] => file[0] !== undefined));
}

/**
 * The programs of all pages: every `ts` block is one of its own, unless it is a file of a project above. Each is
 * compiled and run; there is no way to opt out. What they use without defining it is in page-globals.ts, and the addresses of a local Redis or
 * ZooKeeper are replaced by those of the test's.
 */
export function programs(): Program[] {
  return PAGES.flatMap((page) =>
    programsOf(page).filter((program) => !(page in PROJECTS) || fileIn(program) === undefined),
  );
}

function programsOf(page: string): Program[] {
  const blocks = blocksOf(page);
  return blocks.flatMap((block, index) => {
    if (block.language !== "ts") return [];
    const next = blocks[index + 1];
    const follows = next?.language === "text" && next.before.trim() === "";
    return [{ ...block, prints: follows ? next.text : undefined }];
  });
}

/** Numbers, durations and the machine differ from run to run; everything else is compared. */
export function withoutNumbers(text: string): string {
  return text
    .trim()
    .replace(/\bon \S+, process \d+/g, "on HOST, process PID")
    .replace(/\d[\d.]*( (ms|s|m|h)\b)?/g, (_, unit?: string) => (unit === undefined ? "N" : "TIME"));
}
