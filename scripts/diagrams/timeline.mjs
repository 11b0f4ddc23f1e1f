import { arrow, LINE_HEIGHT, line, picture, rect, text, texts } from "./drawing.mjs";

const [TOP, AXIS, BAR, GAP, END] = [70, 36, 12, 6, 4];

/**
 * Lanes with a common time that runs downwards.
 *   lanes: { id: { x, title, bars? } };   seconds: how long it lasts;   perSecond: how high a second is
 *   bars: [{ lane, from, to, kind?, place? }]   kind: "own" holds, "waits" waits; place: of two bars side by side
 *   messages: [{ from, to, at, lines }]   the lines stand above the arrow, at its left end
 *   spans: [{ lane, from, to, lines }]   a length of time, on the left of a lane
 *   notes: [{ lane, at, lines, side?, kind? }]
 */
export function timeline({ lanes, seconds, perSecond, ticks, bars, messages, spans, notes, ...frame }) {
  const y = (at) => Number((TOP + at * perSecond).toFixed(1));
  /** Beside the bars of a lane. */
  const beside = (lane, side) => lanes[lane].x + side * (((lanes[lane].bars ?? 1) * BAR) / 2 + GAP);
  const bottom = y(seconds);

  function bar({ lane, from, to, kind, place = 0 }) {
    const { x, bars: count = 1 } = lanes[lane];
    const left = x - (count * BAR) / 2 + place * BAR;
    return rect([left, y(from)], [BAR, y(to) - y(from)], kind ? `bar ${kind}` : "bar", 3);
  }

  function message({ from, to, at, lines }) {
    const side = lanes[to].x > lanes[from].x ? 1 : -1;
    const ends = [beside(from, side), beside(to, -side)];
    const first = y(at) - GAP - (lines.length - 1) * LINE_HEIGHT;
    return [...arrow(ends.map((x) => [x, y(at)])), ...texts([Math.min(...ends) + 2, first], lines)];
  }

  function span({ lane, from, to, lines }) {
    const x = beside(lane, -1) - GAP;
    const caps = [from, to].map((at) =>
      line(
        [
          [x - 4, y(at)],
          [x + 4, y(at)],
        ],
        "line",
      ),
    );
    const first = (y(from) + y(to) - (lines.length - 1) * LINE_HEIGHT) / 2 + 4;
    return [
      line(
        [
          [x, y(from)],
          [x, y(to)],
        ],
        "line",
      ),
      ...caps,
      ...texts([x - 8, first], lines, "faint end"),
    ];
  }

  function note({ lane, at, lines, side = "right", kind = "" }) {
    const [towards, end] = side === "right" ? [1, ""] : [-1, "end"];
    return texts([beside(lane, towards) + 2 * towards, y(at) + 4], lines, `${end} ${kind}`.trim());
  }

  return picture({ ...frame, height: bottom + END }, [
    ...ticks.flatMap((at) => [
      text([AXIS - 6, y(at) + 4], `${at} s`, "faint end"),
      line(
        [
          [AXIS, y(at)],
          [frame.width, y(at)],
        ],
        "grid",
      ),
    ]),
    ...Object.values(lanes).flatMap(({ x, title }) => [
      text([x, TOP - 24], title, "strong middle"),
      line(
        [
          [x, TOP - 16],
          [x, bottom],
        ],
        "lane",
      ),
    ]),
    ...bars.map(bar),
    ...spans.flatMap(span),
    ...messages.flatMap(message),
    ...notes.flatMap(note),
  ]);
}
