// The list of tuples that the reader looked for, and the whole path of one of them.

import { html } from "./dom.ts";
import type { Found, Listed, Path } from "./explore-data.ts";
import { laneName, perhapsEnded } from "./lanes.ts";
import { absent, estimate, value } from "./marks.ts";
import { lacking } from "./spread.ts";
import { moment } from "./timeframe.ts";
import type { Run, View } from "./view.ts";
import { waterfall } from "./waterfall.ts";

/** title says what a list shows. */
function title(view: View, run: Run, listed: Listed): string {
  const list = view.list, format = run.format(view.unit);
  const n = listed.rows.length;
  const many = n === 1 ? "tuple" : "tuples";
  const from = (list?.from ?? view.from) * run.scale, to = (list?.to ?? view.to) * run.scale;
  const when = list === null && view.whole()
    ? "of the run"
    : `that began from ${moment(format, from, to - from)} to ${moment(format, to, to - from)}`;
  if (list?.lane) return `${listed.whole ? "" : "The first "}${n} ${many} ${when} and ended in ` +
    `${list.lane}, which is not the end of the path`;
  const range = list?.lo !== undefined && list.hi !== undefined
    ? `, from ${format.tick(format.draw(list.lo))} to ${format.tick(format.draw(list.hi))}` : "";
  const logged = lacking(run.meta.spans[run.span(view.span)]) ? " in the logs" : "";
  const slowest = n === 1 ? "slowest tuple" : `${n} slowest tuples`;
  return `The ${slowest}${logged} ${when}${range}, by the most that ` +
    `${n === 1 ? "it" : "they"} can have taken` +
    (listed.whole ? "" : "; not all were searched");
}

export function tuples(
  view: View,
  run: Run,
  listed: Listed,
  found: Found | null,
  width: number
): HTMLElement {
  const format = run.format(view.unit);
  const rows = listed.rows.map((row, i) =>
    html("button", {
      class: "tuple",
      "data-key": `row-${run.number}-${i}`,
      "aria-pressed": row.id === view.id ? "true" : "false",
      click: () => view.set({ id: row.id }),
    },
      html("span", { class: "tuple-row" },
        html("span", { class: "tuple-id" }, row.id),
        view.list?.lane
          ? html("span", { class: "tuple-why" }, row.ended ?? "")
          : value(format, row.duration, row.suspect ? "suspect" : ""))));
  const lane = run.meta.lanes.findIndex((l) => laneName(l) === view.list?.lane);
  const perhaps = lane < 0 ? "" : perhapsEnded(run, [lane]);
  const side = width >= 820;
  const panel = found === null
    ? html("p", { class: "means" },
        "Choose a tuple here, in a lane, or by its id above, to see its whole path.")
    : shownPath(view, run, found, side ? width - 324 : width);
  return html("div", { class: side ? "tuples" : "tuples stacked" },
    html("div", {},
      html("p", { class: "list-title" }, title(view, run, listed)),
      perhaps ? html("p", { class: "means note" }, perhaps) : null,
      rows.length === 0
        ? absent(["There is none."])
        : html("div", { class: "tuple-list found", role: "group", "aria-label": "Tuples" },
            ...rows)),
    html("div", { class: "tuple-panel" }, panel)
  );
}

function shownPath(view: View, run: Run, found: Found, width: number): HTMLElement {
  if (found.tuples.length === 0)
    return absent([`No event of tuple ${view.id} is in the logs of ${run.meta.run}.`]);
  return html("div", {},
    found.tuples.length > 1
      ? html("p", { class: "banner suspect" },
          `${found.more ? "At least " : ""}${found.tuples.length} tuples have this id.`)
      : null,
    ...found.tuples.map((p) => onePath(view, run, p, width)));
}

function onePath(view: View, run: Run, p: Path, width: number): HTMLElement {
  const format = run.format(view.unit);
  const middle = (p.at.lo_cycles + p.at.hi_cycles) / 2;
  const around = Math.max(2000, (p.total.hi_cycles + p.at.hi_cycles - p.at.lo_cycles) * 1.2);
  const placed = p.events.length > 0;
  return html("div", { class: "path" },
    html("p", { class: "fate" },
      "Tuple ", html("code", {}, p.id), ": ", p.why, ". ",
      placed
        ? html("span", {}, "It began at ",
            moment(format, middle, Math.max(100, p.at.hi_cycles - p.at.lo_cycles) * 10), " ",
            format.bound((p.at.hi_cycles - p.at.lo_cycles) / 2), ". ")
        : null,
      estimate(p.verdict),
      placed
        ? html("button", {
            class: "button",
            "data-key": `go-${run.number}-${p.id}-${p.at.lo_cycles}`,
            click: () => {
              view.zoom((middle - around * 0.2) / run.scale, (middle + around) / run.scale);
              document.getElementById("lanes")?.scrollIntoView({ behavior: "smooth" });
            },
          }, "Show it in the lanes")
        : null),
    p.steps.length > 0
      ? waterfall(format, { ...p, why: "from where its path begins to where it ends" }, width)
      : placed
        ? html("p", {}, `It has one event, ${p.events.map((e) =>
            `${e.point} on ${run.meta.lanes[e.lane]!.node}`).join(", ")}: there is no duration.`)
        : html("p", {}, value(format, p.total, p.verdict)));
}
