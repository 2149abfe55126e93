// Draws the whole path of one tuple, with a row for each step. Each end of a step is an interval,
// which is drawn as well.

import { valueScale, xAxis } from "./axis.ts";
import type { Tuple } from "./data.ts";
import { html, picture, replace, shorten, svg } from "./dom.ts";
import { absent, estimate, value } from "./marks.ts";
import { type Format, interval } from "./number.ts";
import { pauseBands, pausesOf, timeInPauses } from "./pauses.ts";
import type { State } from "./state.ts";
import { style } from "./spans.ts";

export function waterfalls(state: State): HTMLElement {
  const { tuples } = state.data;
  if (tuples.length === 0) return absent(state.absent("tuples"));
  const format = state.format;
  const list = html("div", { class: "tuple-list", role: "group", "aria-label": "Tuples" },
    ...tuples.map((t, i) =>
      html("button", {
        class: "tuple",
        "data-key": `tuple-${i}`,
        "aria-pressed": i === state.tuple ? "true" : "false",
        click: () => state.set({ tuple: i }),
      },
        html("span", { class: "tuple-row" },
          html("span", { class: "tuple-why" }, t.why),
          value(format, t.total, "")
        ),
        html("span", { class: "tuple-row" },
          html("span", { class: "tuple-id" }, t.id),
          estimate(t.verdict)
        )
      )
    )
  );
  const chosen = tuples[Math.min(state.tuple, tuples.length - 1)]!;
  const panel = html("div", { class: "tuple-panel" });
  replace(panel, waterfall(format, chosen, state.width >= 820 ? state.width - 324 : state.width));
  return html("div", { class: "tuples" }, list, panel);
}

/** waterfall draws one tuple. */
export function waterfall(format: Format, t: Tuple, width: number): HTMLElement {
  const lane = 34, top = 8;
  const names = width > 560 ? 176 : 96, numbers = width > 560 ? 168 : 136;
  const height = top + t.steps.length * lane + 30;
  const px0 = names + 8, px1 = width - numbers;
  const ends = t.steps.flatMap((s) => [s.start.lo_cycles, s.end.hi_cycles]);
  const x = valueScale(
    format.draw(Math.min(0, ...ends)),
    format.draw(Math.max(1, ...ends)),
    [px0, px1],
    false,
    Math.max(2, Math.floor((px1 - px0) / 90)),
    false
  );
  const px = (cycles: number) => x(format.draw(cycles));
  const rows = t.steps.map((s, i) => {
    const y = top + i * lane + lane / 2;
    const kind = style({ kind: s.kind, place: s.from === s.to ? "local" : "remote" });
    const from = (px(s.start.lo_cycles) + px(s.start.hi_cycles)) / 2;
    const to = (px(s.end.lo_cycles) + px(s.end.hi_cycles)) / 2;
    const text = format.text(interval(s.duration), s.verdict);
    const bar = {
      x: Math.min(from, to), width: Math.max(1.5, Math.abs(to - from)), y: y - 7, height: 14, rx: 2,
    };
    const whisker = (e: { lo_cycles: number; hi_cycles: number }) => {
      const [a, b] = [px(e.lo_cycles), px(e.hi_cycles)];
      return svg("g", { class: "error" },
        svg("rect", { x: a, width: Math.max(0, b - a), y: y - 10, height: 20, class: "unsure" }),
        svg("path", { d: `M${a},${y - 4}V${y + 4}M${a},${y}H${b}M${b},${y - 4}V${y + 4}` }));
    };
    return svg("g", {},
      ...pauseBands(format, t, i,
        { left: px0, right: px1, y: y - lane / 2, height: lane }, px),
      svg("title", {},
        `${s.name}, ${s.from === s.to ? `on ${s.from}` : `${s.from} → ${s.to}`}: ${text}; ` +
          s.scenario +
          (s.undecided ? "; the bound does not tell whether its end came after its start" : "")
      ),
      svg("line", { x1: 0, x2: width, y1: y + lane / 2, y2: y + lane / 2, class: "rule" }),
      svg("text", { x: 0, y: y - 2, class: "step-name" }, shorten(s.name, Math.floor(names / 6.6))),
      svg("text", { x: 0, y: y + 11, class: "step-node" },
        shorten(s.from === s.to ? s.from : `${s.from} → ${s.to}`, Math.floor(names / 6.2))
      ),
      svg("rect", { ...bar, class: `bar ${kind}` }),
      s.verdict === "suspect" ? svg("rect", { ...bar, fill: "url(#hatch)" }) : null,
      whisker(s.start),
      whisker(s.end),
      svg(
        "text",
        { x: width, y: s.undecided ? y - 1 : y + 4, "text-anchor": "end", class: "step-time" },
        text
      ),
      s.undecided
        ? svg("text", { x: width, y: y + 12, "text-anchor": "end", class: "step-undecided" },
            "order undecided"
          )
        : null
    );
  });
  const steps = t.steps
    .map((s) => `${s.name} ${format.text(interval(s.duration), s.verdict)}`)
    .join("; ");
  return html("figure", { class: "chart" },
    html("figcaption", {},
      "Tuple ",
      html("code", {}, t.id),
      ", ",
      t.why,
      ": ",
      value(format, t.total, t.verdict),
      " in all",
      timeInPauses(format, t)
    ),
    picture(
      width,
      height,
      `Path of tuple ${t.id}: ${steps}`,
      xAxis(x, width, height - 26, height - 26 - top, (v) => format.tick(v)),
      ...rows
    ),
    pausesOf(format, t)
  );
}
