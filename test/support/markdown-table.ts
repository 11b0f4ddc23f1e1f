/** A table as people write it, with its columns below each other. */
export function markdownTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [header, ...rows];
  const widths = header.map((_, at) => Math.max(...all.map((row) => row[at]?.length ?? 0), 3));
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(" | ")} |`;
  return [line(header), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}

/** The cells of each row, without the header. */
export function tableRows(table: string): string[][] {
  const lines = table.split("\n").filter((line) => line.startsWith("|"));
  return lines.slice(2).map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

const END = "<!-- end -->";

/** What stands on a page between `<!-- mark -->` and the end of it. */
export function markedPart(page: string, mark: string): string {
  return split(page, mark).part;
}

/** The page with another text in that place. */
export function withMarkedPart(page: string, mark: string, part: string): string {
  const { before, after } = split(page, mark);
  return `${before}${part}${after}`;
}

function split(page: string, mark: string): { before: string; part: string; after: string } {
  const begin = `<!-- ${mark} -->\n`;
  const from = page.indexOf(begin) + begin.length;
  const to = page.indexOf(END, from);
  if (from < begin.length || to === -1) throw new Error(`the page has no place for: ${mark}`);
  return { before: page.slice(0, from), part: page.slice(from, to), after: page.slice(to) };
}
