// Scales and axes that the charts share.

import { scaleLinear, scaleLog } from "d3-scale";
import { svg, textWidth } from "./dom.ts";

export interface Scale {
  (x: number): number;
  ticks: number[];
  lo: number;
  hi: number;
}

/**
 * logTicks returns at most `count` round values of a logarithmic axis, for its ticks. If fewer than
 * two values are round enough, it takes less round ones, and returns the outermost two of them.
 */
export function logTicks(lo: number, hi: number, count: number): number[] {
  const first = Math.floor(Math.log10(lo)), last = Math.ceil(Math.log10(hi));
  let found: number[] = [], before: number[] = [];
  for (const [digits, step] of [
    [[1, 2, 5], 1],
    [[1, 3], 1],
    [[1], 1],
    [[1], 2],
    [[1], 3],
    [[1], 6],
  ] as [number[], number][]) {
    found = [];
    for (let e = first; e <= last; e++) {
      if (e % step === 0)
        found.push(...digits.map((d) => Number(`${d}e${e}`)).filter((t) => t >= lo && t <= hi));
    }
    if (found.length < 2 && before.length > 1) return [before[0]!, before[before.length - 1]!];
    if (found.length <= count) break;
    before = found;
  }
  return found;
}

/** valueScale covers lo to hi. The axis is logarithmic if log is set and lo is above 0. */
export function valueScale(
  lo: number,
  hi: number,
  range: [number, number],
  log: boolean,
  count = 5,
  nice = true
): Scale {
  if (!(hi > lo)) {
    lo = lo > 0 ? lo / 2 : lo - 1;
    hi = hi > 0 ? hi * 2 : hi + 1;
  }
  if (log && lo > 0) {
    const s = scaleLog().domain([lo, hi]).range(range);
    let ticks = logTicks(lo, hi, count);
    if (ticks.length < 2)
      ticks = scaleLinear()
        .domain([lo, hi])
        .ticks(3)
        .filter((t) => t > 0);
    return Object.assign((x: number) => s(Math.max(x, lo)), { ticks, lo, hi });
  }
  const s = scaleLinear().domain([lo, hi]).range(range);
  if (nice) s.nice(count);
  const [a = lo, b = hi] = s.domain();
  return Object.assign((x: number) => s(x), { ticks: s.ticks(count), lo: a, hi: b });
}

/** countScale covers the counts from 0 to `most`. Its ticks are whole numbers. */
export function countScale(most: number, range: [number, number], count: number): Scale {
  const s = valueScale(0, Math.max(1, most), range, false, count);
  return Object.assign(s, { ticks: s.ticks.filter(Number.isInteger) });
}

export interface Label { middle: number; width: number }

/**
 * besides returns where to put the middles of an axis' labels, so that all labels lie between 0 and
 * `across`. If the previous label leaves no room for a label, that label's middle is null.
 */
export function besides(labels: Label[], across: number, gap = 7): (number | null)[] {
  let free = -Infinity;
  return labels.map(({ middle, width }) => {
    const inside = Math.max(width / 2, Math.min(across - width / 2, middle));
    if (inside - width / 2 < free) return null;
    free = inside + width / 2 + gap;
    return inside;
  });
}

/** xAxis draws ticks with labels along the bottom of a picture, and vertical lines in the plot. */
export function xAxis(
  scale: Scale,
  across: number,
  y: number,
  up: number,
  label: (x: number) => string
): SVGElement {
  const middles = besides(
    scale.ticks.map((t) => ({ middle: scale(t), width: textWidth(label(t), 11.5) })),
    across
  );
  return svg("g", { class: "axis", "aria-hidden": "true" },
    ...scale.ticks.flatMap((t, i) => [
      svg("line", { x1: scale(t), x2: scale(t), y1: y, y2: y - up }),
      middles[i] === null
        ? null
        : svg("text", { x: middles[i], y: y + 16, "text-anchor": "middle" }, label(t)),
    ])
  );
}

export function yAxis(
  scale: Scale,
  x: number,
  across: number,
  label: (x: number) => string
): SVGElement {
  return svg("g", { class: "axis", "aria-hidden": "true" },
    ...scale.ticks.flatMap((t) => [
      svg("line", { x1: x, x2: x + across, y1: scale(t), y2: scale(t) }),
      svg("text", { x: x - 8, y: scale(t) + 4, "text-anchor": "end" }, label(t)),
    ])
  );
}

/** hatch returns the definition of the pattern of thin lines that marks estimates. */
export function hatch(): SVGElement {
  return svg("defs", {},
    svg("pattern", {
      id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse",
      patternTransform: "rotate(45)",
    },
      svg("line", { x1: 0, x2: 0, y1: 0, y2: 5, class: "hatch-line" })
    )
  );
}

/** apart returns the heights of the labels in a column: the wanted heights, changed as little as
 * possible so that no label covers another. */
export function apart(wanted: number[], gap: number, lo: number, hi: number): number[] {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a]! - wanted[b]!);
  const placed = [...wanted];
  let last = lo - gap;
  for (const i of order) last = placed[i] = Math.max(wanted[i]!, last + gap);
  let next = hi + gap;
  for (const i of [...order].reverse()) next = placed[i] = Math.min(placed[i]!, next - gap);
  return placed;
}
