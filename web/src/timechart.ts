// Draws charts of lines over the run's time, with bands for their uncertainty. If the reader zooms
// into one chart, all charts show that part of the run.

import { area, line } from "d3-shape";
import { apart, valueScale, xAxis, yAxis } from "./axis.ts";
import type { Column } from "./data.ts";
import { html, picture, shorten, svg, textWidth } from "./dom.ts";
import type { State } from "./state.ts";

export interface Line {
  name: string;
  style: string; // class: its colour
  lo: Column; // in the units of the axis; the same as hi for a line without a band
  hi: Column;
  dashed?: boolean;
  text: (bucket: number) => string; // the value, as the reader sees it
}

export interface TimeChart {
  label: string; // accessible name
  key: string; // unique in the page
  lines: Line[];
  log: boolean;
  zero?: boolean; // the axis begins at 0
  tick: (x: number) => string;
  height?: number;
}

interface Point { at: number; lo: number; hi: number }

/** pieces returns the points of a line. A bucket without a value has no point. If more than three
 * such buckets follow each other, the line is broken into two. */
export function pieces(l: { lo: Column; hi: Column }, from: number, to: number): Point[][] {
  const found: Point[][] = [];
  let last = -Infinity;
  for (let i = from; i < to; i++) {
    const lo = l.lo[i], hi = l.hi[i];
    if (lo === null || lo === undefined || hi === null || hi === undefined) continue;
    if (i - last > 4) found.push([]);
    found[found.length - 1]!.push({ at: i, lo, hi });
    last = i;
  }
  return found;
}

export function timeChart(state: State, chart: TimeChart): HTMLElement {
  const { width, data: { timeline } } = state;
  const { from, to } = state;
  const height = chart.height ?? 250;
  const longest = Math.max(0, ...chart.lines.map((l) => textWidth(shorten(l.name, 26), 12, 600)));
  const box = {
    left: 64, right: width - (width < 560 ? 12 : Math.min(190, longest + 26)), top: 12,
    bottom: height - 30,
  };
  const seconds = (bucket: number) => state.format.draw(bucket * timeline.bucket_cycles);

  const drawn = chart.lines.map((l) => ({ ...l, pieces: pieces(l, from, to) }));
  const all = drawn.flatMap((l) => l.pieces.flat());
  const positive = all.filter((p) => p.lo > 0);
  const log = chart.log && positive.length > 0;
  const lo = chart.zero && !log ? 0 : Math.min(...(log ? positive : all).map((p) => p.lo));
  const hi = Math.max(...all.map((p) => p.hi));
  const y = valueScale(log ? lo * 0.9 : lo, hi * (log ? 1.1 : 1.02), [box.bottom, box.top], log);
  const x = valueScale(
    seconds(from),
    seconds(to),
    [box.left, box.right],
    false,
    Math.max(3, Math.floor((box.right - box.left) / 110))
  );
  // The ends of this time axis are not rounded: a longer axis would show buckets that do not exist.
  const px = (at: number) => box.left + ((at + 0.5 - from) / (to - from)) * (box.right - box.left);
  const timeTicks = Object.assign(
    (t: number) =>
      box.left + ((t - seconds(from)) / (seconds(to) - seconds(from))) * (box.right - box.left),
    { ticks: x.ticks.filter((t) => t >= seconds(from) && t <= seconds(to)), lo: x.lo, hi: x.hi }
  );

  const band = area<Point>().x((p) => px(p.at)).y0((p) => y(p.lo)).y1((p) => y(p.hi));
  const middle = line<Point>().x((p) => px(p.at)).y((p) => y((p.lo + p.hi) / 2));
  const marks = drawn.flatMap((l) =>
    l.pieces.flatMap((piece) => [
      svg("path", { d: band(piece), class: `band ${l.style}` }),
      piece.length === 1
        ? svg("circle", {
            cx: px(piece[0]!.at), cy: y((piece[0]!.lo + piece[0]!.hi) / 2), r: 2,
            class: `dot ${l.style}`,
          })
        : svg("path", { d: middle(piece), class: `line ${l.style}${l.dashed ? " dashed" : ""}` }),
    ])
  );
  const ends = drawn.map((l) => {
    const p = l.pieces.at(-1)?.at(-1);
    return p ? y((p.lo + p.hi) / 2) : box.bottom;
  });
  const names = width < 560 ? [] : apart(ends, 15, box.top + 6, box.bottom).map((at, i) => {
    const l = drawn[i]!;
    return l.pieces.length === 0
      ? null
      : svg("text", { x: box.right + 10, y: at + 4, class: `name ${l.style}` },
          shorten(l.name, 26),
          svg("title", {}, l.name)
        );
  });

  const cross = svg("line", { class: "cross", y1: box.top, y2: box.bottom, visibility: "hidden" });
  const chosen = svg("rect", {
    class: "brush", y: box.top, height: box.bottom - box.top, visibility: "hidden",
  });
  const readout = html("output", { class: "readout", "aria-live": "polite" });
  const hint =
    "Arrow keys read values, + and − zoom, 0 shows the whole run; or drag across a part of it.";
  const rest = () => {
    cross.setAttribute("visibility", "hidden");
    readout.replaceChildren(
      html("span", { class: "hint" },
        from > 0 || to < timeline.buckets
          ? "A part of the run is shown: 0 or a double click shows all of it."
          : hint
      )
    );
  };
  let at = -1;
  const show = (bucket: number) => {
    at = Math.min(to - 1, Math.max(from, bucket));
    cross.setAttribute("x1", String(px(at)));
    cross.setAttribute("x2", String(px(at)));
    cross.setAttribute("visibility", "visible");
    const moment = state.format.unit === "seconds"
      ? `${seconds(at + 0.5).toFixed(2)} s` : `${state.format.tick(seconds(at + 0.5))} cycles`;
    readout.replaceChildren(
      html("b", {}, moment),
      ...chart.lines.map((l) =>
        html("span", { class: `reading ${l.style}` },
          l.name,
          " ",
          html("span", { class: "number" }, l.text(at))
        )
      )
    );
  };
  const zoom = (a: number, b: number) => {
    const lo = Math.max(0, Math.min(a, timeline.buckets - 4));
    state.set({ from: lo, to: Math.min(timeline.buckets, Math.max(b, lo + 4)) });
  };
  const bucketAt = (event: PointerEvent) => {
    const edge = figure.querySelector("svg")!.getBoundingClientRect();
    const inside = ((event.clientX - edge.left) / edge.width) * width;
    return from + Math.floor(((inside - box.left) / (box.right - box.left)) * (to - from));
  };
  let pressed = -1;
  const figure = html("div", {
    class: "chart time",
    tabindex: 0,
    role: "group",
    "data-key": chart.key,
    "aria-label": `${chart.label}. ${hint}`,
    keydown: (event: KeyboardEvent) => {
      const centre = at < 0 ? Math.floor((from + to) / 2) : at, span = to - from;
      const move = event.shiftKey ? 10 : 1;
      switch (event.key) {
        case "ArrowLeft":
          show(centre - (at < 0 ? 0 : move));
          break;
        case "ArrowRight":
          show(centre + (at < 0 ? 0 : move));
          break;
        case "Home":
          show(from);
          break;
        case "End":
          show(to - 1);
          break;
        case "+":
        case "=":
          zoom(Math.floor(centre - span / 4), Math.ceil(centre + span / 4));
          break;
        case "-":
          zoom(Math.floor(centre - span), Math.ceil(centre + span));
          break;
        case "0":
        case "Escape":
          state.set({ from: 0, to: timeline.buckets });
          break;
        default:
          return;
      }
      event.preventDefault();
    },
    blur: () => {
      at = -1;
      rest();
    },
    pointermove: (event: PointerEvent) => {
      show(bucketAt(event));
      if (pressed < 0) return;
      const [a, b] = [Math.min(pressed, at), Math.max(pressed, at)];
      chosen.setAttribute("x", String(px(a - 0.5)));
      chosen.setAttribute("width", String(px(b + 0.5) - px(a - 0.5)));
      chosen.setAttribute("visibility", a === b ? "hidden" : "visible");
    },
    pointerleave: () => {
      pressed = -1;
      chosen.setAttribute("visibility", "hidden");
      if (document.activeElement !== figure) {
        at = -1;
        rest();
      }
    },
    pointerdown: (event: PointerEvent) => {
      if (event.pointerType === "mouse")
        pressed = Math.min(to - 1, Math.max(from, bucketAt(event)));
    },
    pointerup: (event: PointerEvent) => {
      const released = Math.min(to - 1, Math.max(from, bucketAt(event)));
      const begun = pressed;
      pressed = -1;
      if (begun >= 0 && Math.abs(released - begun) > 2)
        zoom(Math.min(begun, released), Math.max(begun, released) + 1);
    },
    dblclick: () => state.set({ from: 0, to: timeline.buckets }),
  },
    picture(
      width,
      height,
      chart.label,
      yAxis(y, box.left, box.right - box.left, chart.tick),
      xAxis(timeTicks, width, box.bottom, 5, (t) =>
        state.format.unit === "seconds" ? `${Number(t.toPrecision(6))} s` : state.format.tick(t)
      ),
      ...marks,
      ...names,
      chosen,
      cross
    )
  );
  rest();
  const legend =
    width < 560
      ? html("div", { class: "legend" },
          ...chart.lines.map((l) => html("span", { class: `reading ${l.style}` }, l.name))
        )
      : null;
  return html("div", {}, legend, figure, readout);
}
