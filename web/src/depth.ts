// Draws how many tuples were inside a span (between its two points) at each time.

import { countScale, yAxis } from "./axis.ts";
import { html } from "./dom.ts";
import type { Depths } from "./explore-data.ts";
import { absent, estimate } from "./marks.ts";
import { compact, whole } from "./number.ts";
import { moment, stripes, timeFrame } from "./timeframe.ts";
import type { Run, View } from "./view.ts";

export function depth(view: View, run: Run, answer: Depths, width: number): HTMLElement {
  const data = answer.moments;
  const most = Math.max(0, ...data.map((d) => d.hi));
  if (most === 0) return absent(["No tuple was between the two points in the time that is shown."]);
  const height = 170, left = 76, format = run.format(view.unit);
  const y = countScale(most, [height - 26, 10], 4);
  const span = run.meta.spans[run.span(view.span)]!;
  const [from] = span.from.split("/"), notes: string[] = [];
  if (span.never > 0 && !span.kind.includes(","))
    notes.push(`${whole(span.never)} tuples of the run passed ${span.from} and have no such ` +
      "duration: lost, filtered, on another way, or under way when the run ended. They are not " +
      "counted.");
  if (span.completeness.kept !== "all" && span.completeness.kept !== "")
    notes.push(`Only tuples in the logs are counted: ${(span.completeness.why ?? []).join("; ")}.`);
  const mark = answer.suspect > 0 ? estimate("suspect") : null;
  return html("div", {},
    timeFrame({
      view, run, width, height, left, key: `depth-${run.number}`,
      label: `Tuples between ${span.from} and ${span.to}`,
      axis: yAxis(y, left, width - left - 12, (v) => compact(v)),
      paint: (pen, _, x) => {
        pen.fillStyle = pen.strokeStyle = pen.colour("local");
        pen.beginPath();
        data.forEach((d, i) => pen[i ? "lineTo" : "moveTo"](x(d.at_cycles), y(d.hi)));
        [...data].reverse().forEach((d) => pen.lineTo(x(d.at_cycles), y(d.lo)));
        pen.closePath();
        pen.globalAlpha = 0.3;
        pen.fill();
        pen.globalAlpha = 1;
        if (mark) {
          pen.save();
          pen.clip();
          stripes(pen, left, 0, width - left, height);
          pen.restore();
        }
        pen.lineWidth = 1.2;
        for (const end of ["lo", "hi"] as const) {
          pen.beginPath();
          data.forEach((d, i) => pen[i ? "lineTo" : "moveTo"](x(d.at_cycles), y(d[end])));
          pen.stroke();
        }
      },
      read: (cycles) => {
        const d = data.reduce((best, d) =>
          Math.abs(d.at_cycles - cycles) < Math.abs(best.at_cycles - cycles) ? d : best);
        return [
          html("b", {}, moment(format, d.at_cycles, (view.to - view.from) * run.scale)),
          html("span", { class: "number" },
            d.lo === d.hi ? `${whole(d.lo)} tuples` : `${whole(d.lo)} to ${whole(d.hi)} tuples`),
          mark ? mark.cloneNode(true) : "",
          html("span", { class: "hint" }, `after ${from} and before ${span.to}`),
        ];
      },
    }),
    mark ? html("p", { class: "means note" }, mark, " It rests on suspect relations.") : null,
    ...notes.map((n) => html("p", { class: "means note" }, n))
  );
}
