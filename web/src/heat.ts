// The latency of a span over time, as a heat map: the colour of a band of latency shows how many
// durations lie in it. The percentiles are painted over the bands.

import { valueScale, yAxis } from "./axis.ts";
import { html } from "./dom.ts";
import type { Band, Latencies, Latency } from "./explore-data.ts";
import { absent } from "./marks.ts";
import { interval, whole } from "./number.ts";
import { moment, stripes, timeFrame } from "./timeframe.ts";
import type { Run, View } from "./view.ts";

export const shownPercentiles = [
  [50, "p50", "s0"], [99, "p99", "s3"], [100, "max", "s4"],
] as const;

/** range returns the ends of the logarithmic axis of latencies. The axis covers all bands, except
 * the parts of bands at or below 0, which it cannot show. */
function range(bands: Band[]): [number, number] {
  const above = bands.filter((b) => b.hi_cycles > 0);
  const lo = Math.max(1, above[0]?.lo_cycles ?? 1);
  return [lo, Math.max(lo + 1, above[above.length - 1]?.hi_cycles ?? 2)];
}

export function heat(view: View, run: Run, data: Latencies, width: number): HTMLElement {
  if (data.buckets.length === 0)
    return absent(["No tuple began this span in the time that is shown."]);
  const format = run.format(view.unit), left = 76, height = 300;
  const [lo, hi] = range(data.bands);
  const y = valueScale(format.draw(lo), format.draw(hi), [height - 26, 12], true, 6);
  const py = (cycles: number) => y(format.draw(Math.max(cycles, lo)));
  const bands = new Map(data.bands.map((b) => [b.band, b]));
  /** last returns the end of a bucket. If the gap before the next bucket is small, it returns the
   * start of that bucket, so that no gap is drawn. */
  const last = (i: number) => {
    const b = data.buckets[i]!, next = data.buckets[i + 1];
    return next && next.from_cycles - b.to_cycles < (b.to_cycles - b.from_cycles) * 0.5
      ? next.from_cycles : b.to_cycles;
  };
  /** column says where a bucket is drawn: wide enough to see, without covering the next bucket. */
  const column = (i: number, x: (cycles: number) => number): [number, number] => {
    const x0 = x(data.buckets[i]!.from_cycles), next = data.buckets[i + 1];
    const most = next ? x(next.from_cycles) - x0 : Infinity;
    return [x0, x0 + Math.max(1, Math.min(most, Math.max(3, x(last(i)) - x0)))];
  };
  const densest = Math.max(...data.buckets.flatMap((b) => b.heat.map(([, n]) => n)));
  const bucketAt = (cycles: number): Latency | undefined => {
    const i = data.buckets.findIndex((_, i) => last(i) >= cycles);
    const b = data.buckets[i < 0 ? data.buckets.length - 1 : i];
    return b && cycles >= b.from_cycles - (last(i < 0 ? data.buckets.length - 1 : i) -
      b.from_cycles) ? b : undefined;
  };
  const bandAt = (at: number) => data.bands.find((b) =>
    py(b.lo_cycles) >= at && py(b.hi_cycles) <= at);
  return timeFrame({
    view, run, width, height, left, key: `heat-${run.number}`,
    label: `Latency of ${view.span} over time`,
    axis: yAxis(y, left, width - left - 12, (v) => format.tick(v)),
    paint: (pen, _, x) => {
      const shade = pen.colour("bound");
      data.buckets.forEach((b, i) => {
        const [x0, x1] = column(i, x);
        for (const [band, n] of b.heat) {
          const of = bands.get(band);
          if (!of) continue;
          const top = py(of.hi_cycles), foot = Math.max(py(of.lo_cycles), top + 1);
          pen.fillStyle = shade;
          pen.globalAlpha = 0.16 + 0.74 * Math.sqrt(n / densest);
          pen.fillRect(x0, top, x1 - x0, foot - top);
        }
        pen.globalAlpha = 1;
      });
      for (const [from, to] of suspectParts(data.buckets, x))
        stripes(pen, from, 8, to - from, height - 34);
      for (const [percent, , colour] of shownPercentiles) {
        pen.fillStyle = pen.strokeStyle = pen.colour(colour);
        pen.lineWidth = 1.4;
        pen.beginPath();
        data.buckets.forEach((b, i) => {
          const p = b.percentiles.find((p) => p.percent === percent);
          if (!p) return;
          const [x0, x1] = column(i, x);
          const top = py(p.hi_cycles), foot = py(p.lo_cycles);
          pen.globalAlpha = 0.3;
          pen.fillRect(x0, top, x1 - x0, Math.max(1, foot - top));
          const middle = py((p.lo_cycles + p.hi_cycles) / 2);
          const far = i > 0 && b.from_cycles - last(i - 1) > (view.to - view.from) * run.scale / 20;
          if (i === 0 || far) pen.moveTo(x0, middle);
          else pen.lineTo(x0, middle);
          pen.lineTo(x1, middle);
        });
        pen.globalAlpha = 1;
        pen.stroke();
      }
    },
    read: (cycles, at) => {
      const b = bucketAt(cycles), band = bandAt(at);
      const span = (view.to - view.from) * run.scale;
      if (!b) return [html("b", {}, moment(format, cycles, span)), "no tuple began"];
      const here = band && b.heat.find(([n]) => n === band.band)?.[1];
      return [
        html("b", {}, moment(format, cycles, span)),
        html("span", {}, `${whole(b.count)} tuples`),
        ...shownPercentiles.map(([percent, name, colour]) => {
          const p = b.percentiles.find((p) => p.percent === percent)!;
          return html("span", { class: `reading ${colour}` }, name, " ",
            html("span", { class: "number" },
              format.text(interval(p), b.suspect ? "suspect" : "consistent")));
        }),
        here
          ? html("span", { class: "hint" }, `about ${whole(Math.round(here))} in this cell`)
          : "",
      ];
    },
    choose: (at, from, to, y) => {
      const b = bucketAt(at), band = bandAt(y);
      const list = {
        from: Math.floor(Math.min(from, b?.from_cycles ?? from) / run.scale),
        to: Math.ceil(Math.max(to, b?.to_cycles ?? to) / run.scale),
      };
      const filled = band && b?.heat.some(([n]) => n === band.band);
      view.set({
        id: "",
        list: filled ? { ...list, lo: band.lo_cycles, hi: band.hi_cycles } : list,
      });
    },
  });
}

/** suspectParts returns the parts of the time axis, in pixels, whose values are estimates. It joins
 * parts that are near each other. */
function suspectParts(buckets: Latency[], x: (cycles: number) => number): [number, number][] {
  const parts: [number, number][] = [];
  for (const b of buckets) {
    if (!b.suspect) continue;
    const from = x(b.from_cycles), to = Math.max(from + 3, x(b.to_cycles)), before = parts.at(-1);
    if (before && from - before[1] < 16) before[1] = to;
    else parts.push([from, to]);
  }
  return parts;
}

export function heatLegend(): HTMLElement {
  return html("div", { class: "legend" },
    ...shownPercentiles.map(([, name, colour]) =>
      html("span", { class: `reading ${colour}` }, html("i", { class: "swatch" }), name)),
    html("span", { class: "means" },
      "Shade: how many durations. Bands are as wide as the bound and the rounding of 1/32."));
}
