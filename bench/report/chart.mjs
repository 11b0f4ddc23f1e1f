/**
 * Bars on a logarithmic scale, as an SVG that is read on light and on dark ground: it has no ground of its own, and
 * follows what the reader prefers.
 *   groups: [{ title, rows: [{ label, value, low?, high?, own? }] }]   own: one of Locktender's
 *   from: the value at which all bars begin; `mark` says what that is
 */
export function barChart({ title, groups, from, mark, format }) {
  const values = groups.flatMap(({ rows }) => rows.flatMap(({ value, low, high }) => [value, low, high]));
  const scale = logScale([...values.filter((value) => value > 0), from]);
  const parts = [];
  let top = TITLE + 8;
  for (const { title, rows } of groups) {
    parts.push(text(0, top + 15, title, "group"));
    top += GROUP;
    const bottom = top + rows.length * ROW;
    for (const tick of scale.ticks) {
      const [kind, x] = [tick === from ? "base" : "tick", scale.x(tick)];
      parts.push(`<line class="${kind}" x1="${x}" x2="${x}" y1="${top}" y2="${bottom}"/>`);
    }
    rows.forEach((row, index) => {
      parts.push(...bar(row, top + index * ROW, scale, from, format));
    });
    top = bottom + GAP;
  }
  const axis = scale.ticks.map((tick) =>
    text(scale.x(tick), top + 6, tick === from && mark ? mark : format(tick), "axis"),
  );
  const height = top + 16;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    `<title>${escaped(title)}</title>`,
    STYLE,
    text(0, 18, title, "title"),
    ...axis,
    ...parts,
    "</svg>\n",
  ].join("\n");
}

const [WIDTH, LEFT, RIGHT] = [760, 230, 100];
const [TITLE, GROUP, ROW, GAP] = [24, 24, 22, 10];

const STYLE = `<style>
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; font-size: 15px; }
.group { font-weight: 600; }
.label, .value { font-variant-numeric: tabular-nums; }
.label { text-anchor: end; }
.axis { text-anchor: middle; font-size: 11px; fill: #656d76; }
.tick { stroke: #d0d7de; }
.base { stroke: #656d76; }
.own { fill: #1a7f5a; }
.other { fill: #9aa4af; }
.interval { stroke: #24292f; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .axis { fill: #9198a1; }
  .tick { stroke: #3d444d; }
  .base { stroke: #9198a1; }
  .own { fill: #3fb98a; }
  .other { fill: #6e7781; }
  .interval { stroke: #e6edf3; }
}
</style>`;

function bar({ label, value, low, high, own }, top, { x, end }, from, format) {
  const [left, right] = [x(from), x(value)].sort((one, other) => one - other);
  const width = Math.max(1, right - left).toFixed(1);
  const middle = top + ROW / 2;
  const parts = [
    text(LEFT - 10, middle + 4, label, "label"),
    `<rect class="${own ? "own" : "other"}" x="${left}" y="${top + 3}" width="${width}" height="${ROW - 6}" rx="2"/>`,
    text(end + 8, middle + 4, format(value), "value"),
  ];
  if (low > 0 && high > low)
    parts.push(`<line class="interval" x1="${x(low)}" x2="${x(high)}" y1="${middle}" y2="${middle}"/>`);
  return parts;
}

/** From one power of ten to another. */
function logScale(values) {
  const first = Math.floor(Math.log10(Math.min(...values)) + 1e-9);
  const last = Math.max(first + 1, Math.ceil(Math.log10(Math.max(...values)) - 1e-9));
  const perPower = (WIDTH - LEFT - RIGHT) / (last - first);
  return {
    x: (value) => Number((LEFT + (Math.log10(value) - first) * perPower).toFixed(1)),
    end: WIDTH - RIGHT,
    ticks: Array.from({ length: last - first + 1 }, (_, index) => 10 ** (first + index)).map((tick) =>
      Number(tick.toPrecision(1)),
    ),
  };
}

const text = (x, y, content, kind) => `<text class="${kind}" x="${x}" y="${y}">${escaped(content)}</text>`;
const escaped = (content) => content.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
