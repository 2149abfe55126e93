// Draws how the durations of a span are distributed: percentiles for each run, and a histogram for
// each instance of the operator at which the span ends.

import { area, line } from "d3-shape";
import { valueScale, xAxis, yAxis, type Scale } from "./axis.ts";
import { html, picture, svg } from "./dom.ts";
import type { Meta, Percentile, Shape, Span, Spread } from "./explore-data.ts";
import { absent, notAll, value } from "./marks.ts";
import { whole } from "./number.ts";
import { laneName } from "./lanes.ts";
import type { Run, View } from "./view.ts";

const runColours = ["s0", "s2"];

/**
 * nines returns where a percentile lies on an axis on which the steps from 90 to 99, from 99 to
 * 99.9 and so on are equally long. The axis ends at the highest percentile that `count` values can
 * show: that of the largest value.
 */
export function nines(percent: number, count: number): number {
  const most = Math.log10(Math.max(2, count));
  return percent >= 100 ? most : Math.min(most, -Math.log10(1 - percent / 100));
}

/**
 * lacking returns the reason why some tuples have no duration of a span in the logs, or "" if all
 * have.
 */
export function lacking(s: Span | undefined): string {
  if (!s) return "";
  const { kept, why } = s.completeness;
  const words: Record<string, string> = {
    sampled: "sampled", lossy: "some events lost", unknown: "not known to be all",
  };
  const word = words[kept];
  return [
    word ? `${word}: ${(why ?? []).join("; ")}` : "",
    s.withheld > 0 ? `${s.withheld} withheld` : "",
    s.unplaced > 0 ? `${s.unplaced} not related` : "",
  ].filter(Boolean).join("; ");
}

/**
 * lackingNote returns a note that says why the percentiles of a run's span do not describe all
 * tuples, or null if they do.
 */
export function lackingNote(run: Run, name: string): HTMLElement | null {
  const lacks = lacking(run.meta.spans[run.span(name)]);
  return lacks
    ? html("p", { class: "means note lacking" }, notAll(lacks),
        ` Not of all tuples of ${run.meta.run}, only of those in the logs: ${lacks}.`)
    : null;
}

interface Curve { run: Run; count: number; percentiles: Percentile[]; suspect: boolean }

/** percentileCurve draws the curves of all runs in one picture. */
export function percentileCurve(view: View, curves: Curve[], width: number): HTMLElement {
  const shown = curves.filter((c) => c.count > 0);
  if (shown.length === 0) return absent(["No tuple began this span in the time that is shown."]);
  const height = 260, left = 76, format = shown[0]!.run.format(view.unit);
  // Each run has its own frequency, which converts the run's cycles to seconds.
  const drawn = (c: Curve, cycles: number) => c.run.format(view.unit).draw(Math.max(1, cycles));
  const values = shown.flatMap((c) =>
    c.percentiles.flatMap((p) => [drawn(c, p.lo_cycles), drawn(c, p.hi_cycles)]));
  const y = valueScale(Math.min(...values) * 0.95, Math.max(...values) * 1.05,
    [height - 28, 10], true, 6);
  const count = Math.max(...shown.map((c) => c.count));
  const last = nines(100, count), right = width - 14;
  const px = (n: number) => left + (n / last) * (right - left);
  const ticks = [50, 90, 99, 99.9, 99.99, 99.999].filter((p) => nines(p, count) < last - 0.15);
  const x: Scale = Object.assign((t: number) => px(t), {
    ticks: [...ticks.map((p) => nines(p, count)), last], lo: 0, hi: last,
  });
  const name = (t: number) =>
    t === last ? "max" : `p${ticks.find((p) => nines(p, count) === t) ?? ""}`;
  const marks = shown.flatMap((c) => {
    const colour = runColours[c.run.number]!;
    const at = (p: Percentile) => px(nines(p.percent, c.count));
    const points = c.percentiles.filter((p) => p.percent === 100 ||
      nines(p.percent, c.count) < nines(100, c.count));
    const band = area<Percentile>().x(at).y0((p) => y(drawn(c, p.lo_cycles)))
      .y1((p) => y(drawn(c, p.hi_cycles)));
    const middle = line<Percentile>().x(at)
      .y((p) => y(drawn(c, (p.lo_cycles + p.hi_cycles) / 2)));
    return [
      svg("path", { d: band(points), class: `band ${colour}` }),
      c.suspect ? svg("path", { d: band(points), fill: "url(#hatch)" }) : null,
      svg("path", { d: middle(points), class: `line ${colour}` }),
      ...points.map((p) => svg("circle", {
        cx: at(p), cy: y(drawn(c, (p.lo_cycles + p.hi_cycles) / 2)), r: 2.5,
        class: `dot ${colour}`,
      }, svg("title", {}, `p${p.percent} ${c.run.format(view.unit).text({
        lo: p.lo_cycles, hi: p.hi_cycles })}`))),
    ];
  });
  const rows = [50, 90, 99, 99.9, 99.99, 100];
  return html("div", {},
    html("div", { class: "chart" },
      picture(width, height, "Latency by percentile",
        yAxis(y, left, right - left, (v) => format.tick(v)),
        xAxis(x, width, height - 28, height - 38, name),
        ...marks)),
    html("div", { class: "scroll" },
      html("table", { class: "percentiles" },
        html("thead", {}, html("tr", {},
          html("th", { scope: "col" }, "run"),
          html("th", { scope: "col", class: "number" }, "tuples"),
          ...rows.map((p) => html("th", { scope: "col", class: "number" },
            p === 100 ? "max" : `p${p}`)))),
        html("tbody", {}, ...shown.map((c) => html("tr", {},
          html("th", { scope: "row" },
            html("i", { class: `swatch ${runColours[c.run.number]!}` }), c.run.meta.run),
          html("td", { class: "number" }, whole(c.count)),
          ...rows.map((p) => html("td", { class: "number" },
            value(c.run.format(view.unit), c.percentiles.find((q) => q.percent === p),
              c.suspect ? "suspect" : "",
              lacking(c.run.meta.spans[c.run.span(view.span)])))))))))
  );
}

/** exact returns the percentiles of the whole run. They are computed from all durations, as in the
 * report, and not from a histogram. */
export function exact(meta: Meta, span: number): Percentile[] | null {
  const found = meta.spans[span]?.percentiles;
  return found && found.length > 0 ? found : null;
}

/** instances has a row for each instance in which the span ends. */
export function instances(view: View, run: Run, data: Spread, width: number): HTMLElement {
  if (data.instances.length === 0)
    return absent(["No tuple began this span in the time that is shown."]);
  const format = run.format(view.unit), plot = width > 700 ? Math.min(420, width - 430) : 130;
  const bands = data.all.bands.filter((b) => b.hi_cycles > 0);
  const lo = Math.max(1, bands[0]?.lo_cycles ?? 1);
  const hi = Math.max(lo + 1, bands[bands.length - 1]?.hi_cycles ?? 2);
  const x = valueScale(format.draw(lo), format.draw(hi), [14, plot - 20], true,
    Math.max(2, Math.floor(plot / 90)));
  const px = (cycles: number) => x(format.draw(Math.max(lo, cycles)));
  const histogram = (s: Shape) => {
    const tall = 30, most = Math.max(...s.heat.map(([, n]) => n));
    const by = new Map(s.bands.map((b) => [b.band, b]));
    const lane = run.meta.lanes[s.lane];
    return picture(plot, tall + 2,
      `Durations that end in ${lane ? laneName(lane) : "any instance"}`,
      svg("line", { x1: 0, x2: plot, y1: tall, y2: tall, class: "rule" }),
      ...s.heat.map(([band, n]) => {
        const b = by.get(band)!, h = Math.max(1.5, (tall - 3) * (n / most));
        const a = px(b.lo_cycles);
        return svg("rect", {
          x: a, width: Math.max(1, px(b.hi_cycles) - a), y: tall - h, height: h,
          class: `bar ${runColours[run.number]!}`,
        });
      }),
      ...[50, 99].map((percent) => {
        const p = s.percentiles.find((p) => p.percent === percent)!;
        const a = px(p.lo_cycles), b = px(p.hi_cycles);
        return svg("rect", { x: a, width: Math.max(1.5, b - a), y: 2, height: tall - 2,
          class: "unsure" });
      }));
  };
  const percentile = (s: Shape, percent: number) =>
    html("td", { class: "number" },
      value(format, s.percentiles.find((p) => p.percent === percent),
        data.suspect > 0 ? "suspect" : "",
        lacking(run.meta.spans[run.span(view.span)])));
  return html("div", { class: "scroll" },
    html("table", { class: "instances" },
      html("thead", {}, html("tr", {},
        html("th", { scope: "col" }, "to the instance"),
        html("th", { scope: "col", class: "number" }, "tuples"),
        ...["p50", "p99"].map((p) => html("th", { scope: "col", class: "number" }, p)),
        html("th", { scope: "col", class: "plot" },
          picture(plot, 22, "axis", xAxis(x, plot, 2, 2, (v) => format.tick(v)))))),
      html("tbody", {}, ...data.instances.map((s) => {
        const lane = run.meta.lanes[s.lane]!;
        return html("tr", {},
          html("th", { scope: "row" }, lane.instance, html("small", {}, ` on ${lane.node}`)),
          html("td", { class: "number" }, whole(s.count)),
          percentile(s, 50),
          percentile(s, 99),
          html("td", { class: "plot" }, histogram(s)));
      }))),
    data.left > 0
      ? html("p", { class: "means" }, `${data.left} more instances are not listed.`) : null
  );
}
