import { arrow, LINE_HEIGHT, picture, rect, text, texts } from "./drawing.mjs";

/**
 * Boxes and the arrows between them.
 *   boxes: { id: { at, size, title, lines, kind? } }   kind: "own" or "lost"
 *   arrows: [{ from: [id, side, shift?], to, through?, dashed? }]   to: the same, or a point; through: corners on the way
 *   labels: [{ at, lines, kind? }]
 */
export function flow({ boxes, arrows, labels, ...frame }) {
  const corner = ([id, side, shift = 0]) => (id in boxes ? sideOf(boxes[id], side, shift) : [id, side]);
  return picture(frame, [
    ...arrows.flatMap(({ from, to, through = [], dashed }) =>
      arrow([corner(from), ...through, corner(to)], dashed ? "line dashed" : "line"),
    ),
    ...Object.values(boxes).flatMap(box),
    ...labels.flatMap(({ at, lines, kind = "" }) => texts(at, lines, `faint ${kind}`.trim())),
  ]);
}

function box({ at: [x, y], size, title, lines = [], kind }) {
  const middle = x + size[0] / 2;
  const first = y + (size[1] - lines.length * LINE_HEIGHT) / 2 + 4;
  return [
    rect([x, y], size, kind ? `box ${kind}` : "box"),
    text([middle, first], title, "strong middle"),
    ...texts([middle, first + LINE_HEIGHT], lines, "middle"),
  ];
}

/** A point of a side, moved along it from its middle. */
function sideOf({ at: [x, y], size: [width, height] }, side, shift) {
  const [middle, centre] = [x + width / 2, y + height / 2];
  return {
    top: [middle + shift, y],
    bottom: [middle + shift, y + height],
    left: [x, centre + shift],
    right: [x + width, centre + shift],
  }[side];
}
