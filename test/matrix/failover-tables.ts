import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { FailoverResult } from "../failover/results.js";
import { markdownTable, markedPart, tableRows, withMarkedPart } from "../support/markdown-table.js";

/** The page of each engine, by the servers whose failovers it counts. */
export const FAILOVER_PAGES: Readonly<Record<string, RegExp>> = {
  "postgres.md": /^PostgreSQL /,
  "mysql.md": /^(MySQL|MariaDB) /,
  "redis.md": /^(Redis|Valkey) /,
};

/** In this order. */
export interface FailoverRow {
  readonly server: string;
  readonly setup: string;
  readonly promised: string;
  readonly failovers: string;
  readonly overlaps: string;
  readonly tokenRegressions: string;
  readonly notTold: string;
  readonly notBack: string;
  readonly date: string;
}

const MARK = "failovers: written by npm run test:matrix";
const HEADER: readonly string[] = Object.values({
  server: "server",
  setup: "what was done",
  promised: "promised",
  failovers: "failovers · grants",
  overlaps: "two holders",
  tokenRegressions: "tokens that went back",
  notTold: "losers not told",
  notBack: "processes not back",
  date: "counted on",
} satisfies Record<keyof FailoverRow, string>);
export const ONE_HOLDER = "one holder";

const folder = fileURLToPath(new URL("../../docs/engines/", import.meta.url));

/** What a page says. */
export function readFailovers(page: string): FailoverRow[] {
  return tableRows(markedPart(page, MARK)).map(
    ([
      server = "",
      setup = "",
      promised = "",
      failovers = "",
      overlaps = "",
      tokens = "",
      told = "",
      back = "",
      date = "",
    ]) => ({
      server,
      setup,
      promised,
      failovers,
      overlaps,
      tokenRegressions: tokens,
      notTold: told,
      notBack: back,
      date,
    }),
  );
}

/** The page with new rows for these; the same set-up on another version of a server is replaced, the others stay. */
export function withFailovers(page: string, results: readonly FailoverResult[], date: string): string {
  const now = results.map((result) => rowOf(result, date));
  const keyOf = ({ server, setup }: FailoverRow) => `${server.replace(/ [\d.]+/, "")}: ${setup}`;
  const rows = new Map([...readFailovers(page), ...now].map((row) => [keyOf(row), row]));
  const sorted = [...rows.values()].sort((one, other) => keyOf(one).localeCompare(keyOf(other)));
  const table = markdownTable(
    HEADER,
    sorted.map((row) => Object.values(row) as string[]),
  );
  return withMarkedPart(page, MARK, `\n${table}\n\n`);
}

/** On the pages of the engines. */
export function writeFailovers(results: readonly FailoverResult[], date: string): void {
  for (const [name, servers] of Object.entries(FAILOVER_PAGES)) {
    const own = results.filter(({ server }) => servers.test(server));
    const page = readFileSync(folder + name, "utf8");
    if (own.length > 0) writeFileSync(folder + name, withFailovers(page, own, date));
  }
}

function rowOf({ server, setup, promised, counts, also }: FailoverResult, date: string): FailoverRow {
  const { failovers, grants, overlaps, longestOverlapMs, tokenRegressions, lost, notTold, notBack } = counts;
  const kept = promised.leases === "kept" ? ", no lease lost but by expiry" : "";
  const extra = Object.entries(also).map(([what, count]) => `${count} ${what}`);
  return {
    server,
    setup,
    promised: promised.overlaps === "possible" ? "two may hold for a moment" : `${ONE_HOLDER}${kept}`,
    failovers: `${failovers} · ${grants}`,
    overlaps: overlaps === 0 ? "0" : `${overlaps}, for ${longestOverlapMs} ms at most`,
    tokenRegressions: String(tokenRegressions),
    notTold: `${notTold} of ${lost}`,
    notBack: [`${notBack}; the slowest took ${(counts.slowestBackMs / 1000).toFixed(1)} s`, ...extra].join(
      "; ",
    ),
    date,
  };
}
