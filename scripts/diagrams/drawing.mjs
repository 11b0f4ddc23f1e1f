/**
 * What all pictures are made of. They have no ground of their own, and follow what the reader prefers, light or dark;
 * they are narrow, so that their text can be read on a phone.
 */
const STYLE = `<style>
text { font: 14px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; font-size: 16px; }
.strong { font-weight: 600; }
.faint { fill: #59636e; }
.bad { fill: #b3261e; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.line { stroke: #59636e; fill: none; stroke-width: 1.3; }
.grid { stroke: #d0d7de; fill: none; }
.lane { stroke: #afb8c1; fill: none; stroke-width: 1.5; }
.head { fill: #59636e; }
.box { stroke: #8c959f; fill: #8c959f; fill-opacity: 0.12; stroke-width: 1.2; }
.box.own { stroke: #1a7f5a; fill: #1a7f5a; }
.box.lost { stroke: #b3261e; fill: #b3261e; }
.dashed { stroke-dasharray: 4 3; }
.bar { fill: #9aa4af; }
.bar.own { fill: #1a7f5a; }
.bar.waits { fill: #9aa4af; fill-opacity: 0.25; stroke: #59636e; stroke-dasharray: 3 3; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .faint { fill: #9198a1; }
  .bad { fill: #ff7b72; }
  .line { stroke: #9198a1; }
  .grid { stroke: #2f353d; }
  .lane { stroke: #57606a; }
  .head { fill: #9198a1; }
  .box { stroke: #6e7781; fill: #9198a1; }
  .box.own { stroke: #3fb98a; fill: #3fb98a; }
  .box.lost { stroke: #ff7b72; fill: #ff7b72; }
  .bar { fill: #6e7781; }
  .bar.own { fill: #3fb98a; }
  .bar.waits { fill: #6e7781; stroke: #9198a1; }
}
</style>`;

const MARGIN = 8;

/** `description` is what a reader hears who does not see the picture. */
export function picture({ title, description, width, height }, parts) {
  const [wide, high] = [width + 2 * MARGIN, height + 2 * MARGIN];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${-MARGIN} ${-MARGIN} ${wide} ${high}" width="${wide}" height="${high}" role="img">`,
    `<title>${escaped(title)}</title>`,
    `<desc>${escaped(description)}</desc>`,
    STYLE,
    text([0, 18], title, "title"),
    ...parts,
    "</svg>\n",
  ].join("\n");
}

export const LINE_HEIGHT = 18;

export const text = ([x, y], content, kind = "") =>
  `<text${kind && ` class="${kind}"`} x="${x}" y="${y}">${escaped(content)}</text>`;

export const texts = ([x, y], lines, kind) =>
  lines.map((line, index) => text([x, y + index * LINE_HEIGHT], line, kind));

export const rect = ([x, y], [width, height], kind, radius = 4) =>
  `<rect class="${kind}" x="${x}" y="${y}" width="${width}" height="${height}" rx="${radius}"/>`;

export const line = (points, kind) => `<path class="${kind}" d="M${points.map(pair).join("L")}"/>`;

/** A line with a head at its end; its last part is level or upright. */
export function arrow(points, kind = "line") {
  const [[fromX, fromY], [x, y]] = points.slice(-2);
  const [dx, dy] = [Math.sign(x - fromX), Math.sign(y - fromY)];
  const [length, half] = [8, 4];
  const base = [x - dx * length, y - dy * length];
  const corners = [
    [x, y],
    [base[0] - dy * half, base[1] - dx * half],
    [base[0] + dy * half, base[1] + dx * half],
  ];
  return [
    line([...points.slice(0, -1), base], kind),
    `<path class="head" d="M${corners.map(pair).join("L")}Z"/>`,
  ];
}

const pair = ([x, y]) => `${x} ${y}`;
const escaped = (content) => content.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
