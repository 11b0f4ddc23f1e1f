import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { markdownTable, markedPart, tableRows, withMarkedPart } from "../support/markdown-table.js";
import { JOBS, type Job } from "./jobs.js";
import { OLDEST_SERVERS } from "./matrix.js";

const PAGE = fileURLToPath(new URL("../../docs/tested-versions.md", import.meta.url));
const MARK = "tested versions: written by npm run test:matrix";
const HEADER = ["what", "version", "which", "passed on"];
const OLDEST_MARK = "oldest versions: written by npm run test:matrix";

export interface Row {
  readonly product: string;
  readonly which: string;
  readonly version: string;
  readonly date: string;
}

export type Passed = Omit<Row, "date">;

/** Failovers have no row of their own: what was seen stands on the pages of the engines. The site promises nothing. */
export const TABLE_JOBS: readonly Job[] = JOBS.filter(({ group }) => !["failovers", "site"].includes(group));

/** What the page says. */
export function readTable(text = readFileSync(PAGE, "utf8")): Row[] {
  return tableRows(markedPart(text, MARK)).map(([product = "", version = "", which = "", date = ""]) => ({
    product,
    version,
    which,
    date,
  }));
}

/** The page with new rows for what has passed; the others stay as they are. */
export function withPassed(text: string, passed: readonly Passed[], date: string): string {
  const old = readTable(text);
  const rows = TABLE_JOBS.map(({ product, which }) => {
    const isMeant = (row: Passed) => row.product === product && row.which === which;
    const now = passed.find(isMeant);
    const row = now === undefined ? old.find(isMeant) : { ...now, date };
    return [product, row?.version ?? "", which, row?.date ?? ""];
  });
  return withMarkedPart(text, MARK, `\n${markdownTable(HEADER, rows)}\n\n`);
}

/** The page with what is promised of each server, and why nothing older is. */
export function withOldest(text: string): string {
  const rows = Object.entries(OLDEST_SERVERS).map(([product, { version, because }]) => [
    product,
    `${version} or later`,
    because,
  ]);
  const table = markdownTable(["server", "promised", "because"], rows);
  return withMarkedPart(text, OLDEST_MARK, `\n${table}\n\n`);
}

export function writeTable(passed: readonly Passed[], date: string): void {
  writeFileSync(PAGE, withOldest(withPassed(readFileSync(PAGE, "utf8"), passed, date)));
}
