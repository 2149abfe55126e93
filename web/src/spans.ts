// Draws the table of spans. In each row, a box on the left shows the durations of a span, and a
// curve on the right shows how their bounds are distributed.

import { area, curveBasis } from "d3-shape";
import { hatch, valueScale, xAxis, type Scale } from "./axis.ts";
import type { Density, Kind, Percentile, Span } from "./data.ts";
import { html, picture, svg, textWidth } from "./dom.ts";
import { estimate, notAll, ofLogs, value } from "./marks.ts";
import { compact, interval, whole } from "./number.ts";
import type { State } from "./state.ts";

export const kinds: [Kind, string][] = [
  ["end_to_end", "End to end"],
  ["transfer", "Transfer, from one operator to the next"],
  ["computation", "Computation, within an operator"],
  ["inside", "Within an operator, before or beside its computation"],
  ["waiting", "Waiting, for another branch of the same tuple"],
  ["gap", "Gap, across points whose logs do not have every tuple"],
];

/** style returns the class that colours a span. */
export function style(s: { kind: Kind; place?: string }): string {
  return s.kind === "transfer" ? (s.place === "remote" ? "remote" : "local") : s.kind;
}

export function at(s: Span, p: number): Percentile | undefined {
  return s.percentiles.find((x) => x.p === p);
}

export function spans(state: State): HTMLElement {
  const { data, format, width } = state;
  const wide = width >= 680;
  // The plots get the width that the texts leave. All widths are computed here, so a long name
  // cannot push the plots off the page.
  const texts = data.spans
    .flatMap((s) => [at(s, 50), at(s, 99)])
    .map((p) => (p ? textWidth(format.text(interval(p)), 13.5) : 0));
  const nameWidth = 216;
  const countWidth = width >= 860 ? 76 : 0;
  const valueWidth = Math.ceil(Math.max(90, ...texts)) + 40;
  const rest = wide ? width - nameWidth - countWidth - valueWidth - 28 : width - 14;
  const boxWidth = Math.floor(rest * (wide ? 0.7 : 0.62)), boundWidth = rest - boxWidth;
  const positive = (values: number[]) => values.filter((v) => v > 0);
  const ends = data.spans.flatMap((s) => [
    at(s, 0)?.lo_cycles ?? 0,
    at(s, 100)?.hi_cycles ?? 0,
  ]);
  const bounds = data.spans.flatMap((s) => s.bounds.map((b) => b.cycles));
  const axis = (values: number[], across: number, count: number) => {
    const usable = state.log ? positive(values) : values;
    const lo = format.draw(Math.min(...usable)), hi = format.draw(Math.max(...usable));
    return valueScale(state.log ? lo : Math.min(0, lo), hi, [8, across - 8], state.log, count);
  };
  const x = axis(ends.length ? ends : [1, 2], boxWidth, Math.floor(boxWidth / 56));
  const bx = axis(bounds.length ? bounds : [1, 2], boundWidth, Math.floor(boundWidth / 60));
  const axisPicture = (scale: Scale, across: number) =>
    picture(
      across,
      22,
      "axis",
      xAxis(scale, across, 2, 2, (t) => format.tick(t))
    );

  const row = (s: Span) => {
    const label = `${s.name}, ${s.place}, ${s.nodes.join(" to ")}`;
    return html("tr", { class: s.id === state.span ? "chosen" : "" },
      html("th", { scope: "row" },
        html("button", {
          class: "pick",
          "data-key": `span-${s.id}`,
          "aria-pressed": s.id === state.span ? "true" : "false",
          title: `${s.points}: show it over time`,
          click: () => state.set({ span: s.id }),
        },
          html("i", { class: `swatch ${style(s)}` }),
          html("span", {}, s.name),
          notAll(s.lacks),
          estimate(s.verdict)
        ),
        html("small", {},
          s.place,
          ", ",
          s.nodes.join(" → "),
          s.means ? `; ${s.means}` : null,
          s.lacks ? `; ${ofLogs(`the ${whole(s.count)} tuples`, s.lacks)}` : null,
          s.suspect > 0 && s.suspect < s.count ? `; ${compact(s.suspect)} are estimates` : null
        )
      ),
      countWidth ? html("td", { class: "number" }, compact(s.count)) : null,
      html("td", { class: "number" },
        html("div", {}, value(format, at(s, 50), "", s.lacks)),
        html("div", { class: "second" }, "99 % ", value(format, at(s, 99), "", s.lacks))
      ),
      html("td", { class: "plot" }, boxPlot(state, s, x, boxWidth, `Durations of ${label}`)),
      html("td", { class: "plot" }, boundPlot(state, s, bx, boundWidth, `Bounds of ${label}`))
    );
  };
  return html("div", { class: "scroll" },
    svg("svg", { width: 0, height: 0, "aria-hidden": "true", class: "definitions" }, hatch()),
    html("table", { class: wide ? "spans" : "spans narrow" },
      html("colgroup", {},
        ...[nameWidth, countWidth, valueWidth, boxWidth + 14, boundWidth]
          .filter((w) => w > 0)
          .map((w) => html("col", { width: wide ? w : null }))
      ),
      html("thead", {},
        html("tr", {},
          html("th", { scope: "col" }, "span"),
          countWidth ? html("th", { scope: "col", class: "number" }, "tuples") : null,
          html("th", { scope: "col", class: "number" }, "median"),
          html("th", { scope: "col", class: "plot" }, "duration", axisPicture(x, boxWidth)),
          html("th", { scope: "col", class: "plot" }, "bound, ±", axisPicture(bx, boundWidth))
        )
      ),
      ...kinds.flatMap(([kind, title]) => {
        const rows = data.spans.filter((s) => s.kind === kind);
        return rows.length === 0
          ? []
          : [
              html("tbody", {},
                html("tr", { class: "group" },
                  html("th", { colspan: countWidth ? 5 : 4, scope: "rowgroup" }, title)
                ),
                ...rows.map(row)
              ),
            ];
      })
    )
  );
}

/** ridge draws a density as a shape that is symmetric about the middle of a row. */
function ridge(
  state: State,
  d: Density,
  x: Scale,
  middle: number,
  half: number,
  up: boolean
): string {
  const most = Math.max(...d.shares);
  if (!(most > 0)) return "";
  const ratio = Math.log(d.to_cycles / d.from_cycles);
  const points: [number, number][] = d.shares.map((share, i) => [
    x(state.format.draw(d.from_cycles * Math.exp((ratio * (i + 0.5)) / d.shares.length))),
    share / most,
  ]);
  const first = x(state.format.draw(d.from_cycles)), last = x(state.format.draw(d.to_cycles));
  points.unshift([first, 0]);
  points.push([last, 0]);
  return (
    area<[number, number]>()
      .x((p) => p[0])
      .y0((p) => middle - p[1] * half)
      .y1((p) => (up ? middle : middle + p[1] * half))
      .curve(curveBasis)(points) ?? ""
  );
}

const rowHeight = 40;

function boxPlot(state: State, s: Span, x: Scale, width: number, label: string): SVGElement {
  const { format } = state, middle = rowHeight / 2, kind = style(s);
  const [q1, q2, q3] = [at(s, 25), at(s, 50), at(s, 75)];
  if (!q1 || !q2 || !q3) return picture(width, rowHeight, `${label}: none`);
  const px = (cycles: number) => x(format.draw(cycles));
  const centre = (p: { lo_cycles: number; hi_cycles: number }) =>
    px((p.lo_cycles + p.hi_cycles) / 2);
  // Each line of the box is a percentile, which is an interval. The shade behind the line is as
  // wide as that interval.
  const edge = (p: { lo_cycles: number; hi_cycles: number }, half: number, name: string) => {
    return svg("g", { class: `edge ${kind} ${name}` },
      svg("rect", {
        x: px(p.lo_cycles), width: Math.max(0, px(p.hi_cycles) - px(p.lo_cycles)), y: middle - half,
        height: 2 * half,
      }),
      svg("line", { x1: centre(p), x2: centre(p), y1: middle - half, y2: middle + half })
    );
  };
  const [low, high] = s.whiskers, most = at(s, 100), least = at(s, 0);
  const text =
    `${label}: median ${format.text(interval(q2), s.verdict)}, ` +
    `quartiles ${format.text(interval(q1))} and ${format.text(interval(q3))}` +
    (most ? `, at most ${format.text(interval(most))}` : "") +
    `, ${whole(s.outliers)} beyond the whiskers`;
  return picture(
    width,
    rowHeight,
    text,
    svg("title", {}, text),
    svg("path", { d: ridge(state, s.density, x, middle, 18, false), class: `ridge ${kind}` }),
    svg("line", {
      x1: centre(low), x2: centre(high), y1: middle, y2: middle, class: `whisker ${kind}`,
    }),
    edge(low, 4, "end"),
    edge(high, 4, "end"),
    svg("rect", {
      x: centre(q1), width: Math.max(1, centre(q3) - centre(q1)), y: middle - 8, height: 16,
      rx: 1.5, class: `box ${kind}`,
    }),
    s.verdict === "suspect"
      ? svg("rect", {
          x: centre(q1), width: Math.max(1, centre(q3) - centre(q1)), y: middle - 8, height: 16,
          fill: "url(#hatch)",
        })
      : null,
    edge(q1, 8, "quartile"),
    edge(q3, 8, "quartile"),
    edge(q2, 10, "median"),
    svg("circle", { cx: centre(s.mean), cy: middle, r: 2.2, class: "mean" }),
    ...(s.outliers > 0 && most && most.hi_cycles > high.hi_cycles
      ? [svg("circle", { cx: centre(most), cy: middle, r: 2, class: `outlier ${kind}` })]
      : []),
    ...(s.outliers > 0 && least && least.lo_cycles < low.lo_cycles
      ? [svg("circle", { cx: centre(least), cy: middle, r: 2, class: `outlier ${kind}` })]
      : [])
  );
}

function boundPlot(state: State, s: Span, x: Scale, width: number, label: string): SVGElement {
  const median = s.bounds.find((b) => b.p === 50), most = s.bounds.find((b) => b.p === 100);
  if (!median) return picture(width, rowHeight, `${label}: none`);
  const px = x(state.format.draw(median.cycles));
  const text =
    `${label}: median ${state.format.bound(median.cycles, s.verdict)}` +
    (most ? `, largest ${state.format.bound(most.cycles, s.verdict)}` : "");
  const shape = ridge(state, s.bound_density, x, rowHeight - 8, 26, true);
  return picture(width, rowHeight, text,
    svg("title", {}, text),
    svg("line", { x1: 8, x2: width - 8, y1: rowHeight - 8, y2: rowHeight - 8, class: "rule" }),
    svg("path", { d: shape, class: `ridge bound ${s.verdict}` }),
    s.verdict === "suspect" ? svg("path", { d: shape, fill: "url(#hatch)" }) : null,
    svg("line", { x1: px, x2: px, y1: 10, y2: rowHeight - 8, class: "bound-median" }));
}
