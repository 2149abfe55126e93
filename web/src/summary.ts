// Makes the first parts of the page, which give the answer, and the last parts, which say what was
// found and what was assumed.

import { html } from "./dom.ts";
import { absent, estimate, estimateMeans, notAll, ofLogs, value } from "./marks.ts";
import { compact, interval, utc, whole } from "./number.ts";
import { pausesSentence } from "./pauses.ts";
import { many } from "./requests.ts";
import type { State } from "./state.ts";
import type { Data, Share } from "./data.ts";
import { at } from "./spans.ts";

export function heading(state: State): HTMLElement {
  const { run, reference, pairs, verdict } = state.data;
  const begun = utc(run.begun);
  const lacks = notWhole(state.data);
  const suspect = pairs.filter((p) => p.verdict === "suspect").length;
  const which = suspect === 1 ? "one pair" : `${suspect} of ${pairs.length} pairs`;
  return html("header", { class: "heading" },
    html("p", { class: "product" }, "Cloudprofiler report"),
    html("h1", {}, run.name),
    run.note ? html("p", { class: "about" }, run.note) : null,
    html("p", { class: "when" },
      begun ? `Began ${begun}. ` : null,
      reference.length.hi_cycles > 0
        ? html("span", {},
            "Ran ",
            value(state.format, reference.length, reference.length_verdict),
            reference.length_means ? `, ${reference.length_means}` : "",
            ". "
          )
        : null,
      reference.node
        ? html("span", {},
            "In cycles of ",
            html("b", {}, reference.node),
            reference.why ? ` (${reference.why})` : "",
            ". "
          )
        : null,
      reference.seconds
        ? html("span", { class: "seconds" },
            `${reference.seconds[0]!.toUpperCase()}${reference.seconds.slice(1)}.`
          )
        : null
    ),
    verdict === "suspect"
      ? html("p", { class: "banner suspect" },
          html("b", {}, "Partly an estimate. "),
          suspect > 0
            ? `The data refute, or nearly refute, what is assumed about ${which} of nodes. `
            : "",
          "Everything that rests on that is hatched and marked ",
          estimate("suspect"),
          ".",
          lacks
        )
      : pairs.length > 0 || lacks
        ? html("p", { class: lacks ? "banner partial" : "banner good" },
            pairs.length > 0
              ? html("span", {},
                  html("b", {}, lacks ? "Consistent, but incomplete. " : "Consistent. "),
                  "The data do not refute what the bounds assume. They cannot confirm it."
                )
              : html("b", {}, "Incomplete."),
            lacks
          )
        : null,
    state.onlyMessages
      ? html("p", { class: "when" }, "No program logged tuples in this run. So this report is " +
          "about the messages that were captured, and about the clocks.")
      : null
  );
}

/** notWhole counts the missing parts and the undecided questions, and links to their lists. */
function notWhole({ missing, undecided }: Data): HTMLElement | null {
  const parts =
    missing.length === 1
      ? "One part of the run is"
      : missing.length > 1
        ? `${missing.length} parts of the run are`
        : "";
  if (missing.length + undecided.length === 0) return null;
  return html("span", { class: "lacks" },
    " ",
    parts && html("a", { href: "#missing" }, `${parts} missing or incomplete`),
    parts && undecided.length > 0 ? ", and " : null,
    undecided.length > 0
      ? html("a", { href: "#undecided" },
          undecided.length === 1
            ? "one thing cannot be decided"
            : `${undecided.length} things cannot be decided`
        )
      : null,
    "."
  );
}

function tile(
  name: string, content: Node | string, below: Node | string | null = null, kind = ""
): HTMLElement {
  return html("div", { class: `tile ${kind}` },
    html("dt", {}, name),
    html("dd", {}, content, below ? html("small", {}, below) : null)
  );
}

/** messageTiles are the tiles of a run in which no program logged tuples. */
function messageTiles({ data, format }: State): HTMLElement {
  const { messages, inferred } = data;
  const first = inferred.patterns[0];
  const at = (percent: number) => first?.whole.find((q) => q.p === percent);
  const p50 = at(50), p99 = at(99);
  const program = first?.calls[0]?.program ?? "";
  return html("dl", { class: "tiles" },
    tile("messages", compact(messages.matched),
      `of which both ends are known, between ${many(messages.services.length, "program")}`),
    inferred.requests > 0
      ? tile("requests", compact(inferred.requests),
          `of ${many(inferred.patterns.length + inferred.without, "pattern")}`)
      : null,
    p50 && p99
      ? tile("a request, median", value(format, p50, first!.verdict), `to ${program}, pattern 1`)
      : null,
    p50 && p99
      ? tile("a request, 99 %", value(format, p99, first!.verdict), `to ${program}, pattern 1`)
      : null,
    inferred.links > 0
      ? tile("sure links", `${(100 * inferred.sure / inferred.links).toFixed(1)} %`,
          `are at least ${inferred.sure_at} sure, of ` +
            `${many(inferred.links, "link")} between calls`)
      : null,
    inferred.lost > 0
      ? tile("lost messages", compact(inferred.lost), "links may be wrong", "wrong")
      : null
  );
}

export function tiles(state: State): HTMLElement {
  const { data, format } = state;
  if (state.onlyMessages) return messageTiles(state);
  const whole_path = data.spans.find((s) => s.kind === "end_to_end");
  // A run may have several paths, such as one of tuples and one of windows. So say which path this
  // is.
  const path =
    whole_path &&
    (whole_path.name.startsWith(whole_path.points) ? whole_path.name : whole_path.points);
  const below = (text: string) => whole_path?.lacks
    ? `${text}; ${ofLogs(`the ${compact(whole_path.count)} tuples`, whole_path.lacks)}` : text;
  const marked = (text: string, lacks: string) => html("span", {}, text, " ", notAll(lacks));
  const early = data.findings.find((f) => f.name === "received before sent");
  // This is the rate at which tuples enter the path. If the data do not have it, it is the rate of
  // the last series.
  const rate =
    data.throughput.find((t) => whole_path?.points.startsWith(`${t.name} → `)) ??
    data.throughput[data.throughput.length - 1];
  const counted = rate?.count.reduce<number>((sum, c) => sum + (c ?? 0), 0) ?? 0;
  const made = data.paths.reduce((sum, r) => sum + (r.made_of.length > 0 ? r.tuples : 0), 0);
  const length =
    format.draw(data.timeline.bucket_cycles) * (rate?.count.filter((c) => c !== null).length ?? 0);
  return html("dl", { class: "tiles" },
    whole_path
      ? tile("end to end, median", value(format, at(whole_path, 50), whole_path.verdict,
          whole_path.lacks), below(path ?? ""))
      : null,
    whole_path
      ? tile(
          "end to end, 99 %",
          value(format, at(whole_path, 99), whole_path.verdict, whole_path.lacks),
          below(`${whole_path.lacks ? "" : `${compact(whole_path.count)} tuples on this path, `}` +
            whole_path.nodes.join(" → "))
        )
      : null,
    rate && length > 0 && format.unit === "seconds"
      ? tile("throughput, mean", marked(`${compact(counted / length)}/s`, rate.lacks),
          rate.lacks ? `${rate.name}; ${ofLogs("the events", rate.lacks)}` : rate.name)
      : null,
    tile(
      "tuples",
      marked(compact(data.totals.tuples - made), data.totals.lacks),
      (made > 0 ? `${whole(made)} more were made of these, ` : "") +
        `${whole(data.totals.complete)} took the whole path`
    ),
    data.truth.durations.held > 0
      ? tile(
          "checked against the truth",
          data.truth.durations.outside === 0
            ? "all true"
            : `${whole(data.truth.durations.outside)} are not`,
          `${whole(data.truth.durations.held)} durations`,
          data.truth.durations.outside === 0 ? "good" : "wrong"
        )
      : null,
    early
      ? tile(
          "received before sent",
          whole(early.count),
          early.count === 0 ? "as it must be" : "an assumption is wrong",
          early.count === 0 ? "good" : "wrong"
        )
      : null
  );
}

/** share prints a share of the end-to-end time in percent, with only the digits that are known. */
function share(s: Share): string {
  for (const digits of [2, 1, 0]) {
    const unit = 10 ** digits;
    const lo = Math.floor(s.lo * 100 * unit) / unit, hi = Math.ceil(s.hi * 100 * unit) / unit;
    if (digits === 0 || hi - lo <= 2.5 / unit)
      return lo === hi ? `${lo} %` : `${lo.toFixed(digits)} to ${hi.toFixed(digits)} %`;
  }
  return "";
}

/** pauses says how much of the end-to-end time lay in pauses of JVMs. It returns null if that is
 * not known. */
export function pauses(state: State): HTMLElement | null {
  const s = state.data.spans.find((s) => s.kind === "end_to_end" && s.pauses);
  return s ? html("p", { class: "when" }, pausesSentence(s.pauses)) : null;
}

/** slowest says which spans of each path take the most time, and whether that is proven. */
export function slowest(state: State): HTMLElement | null {
  const paths = state.data.paths.filter((r) => r.slowest.length > 1);
  if (paths.length === 0) return null;
  return html("div", { class: "slowest" },
    ...paths.map((r) =>
      html("div", { class: "card" },
        html("h2", {}, `Slowest of ${r.of}, from ${r.points}`),
        r.unsure ? html("p", {}, r.unsure) : null,
        html("ol", {},
          ...r.slowest.map((s, i) =>
            html("li", {},
              html("span", { class: "name", title: s.points }, s.name),
              " ",
              s.share.hi > 0
                ? html("b", {}, share(s.share))
                : value(state.format, s.median, s.verdict, s.lacks),
              " ",
              s.share.hi > 0 ? notAll(s.lacks) : null,
              html("small", {},
                [
                  s.means,
                  s.lacks ? `not of all tuples: ${s.lacks}` : "",
                  [
                    s.share.hi > 0 ? `median ${state.format.text(interval(s.median))}` : "",
                    s.of ? `${s.share.hi > 0 ? "" : "median "}of ${s.of}` : "",
                  ]
                    .filter(Boolean)
                    .join(" "),
                  s.surely
                    ? ""
                    : s.verdict === "suspect"
                      ? "an estimate, and so is its place"
                      : r.unsure
                        ? ""
                        : "the bounds do not separate it from the next",
                  i === 0 && s.surely
                    ? "surely the slowest, by the " +
                      (s.share.hi > 0 ? "share of the time" : "median")
                    : "",
                ]
                  .filter(Boolean)
                  .join("; ")
              )
            )
          )
        )
      )
    )
  );
}

const weights = {
  good: ["✓", "as it should be"], note: ["•", "worth knowing"], wrong: ["✕", "something is broken"],
} as const;

export function findings(state: State): HTMLElement {
  const { findings } = state.data;
  const { remarks } = state.data;
  if (findings.length + remarks.length === 0) return absent([]);
  return html("ul", { class: "findings" },
    ...remarks.filter((r) => r.weight === "wrong").map(remark),
    ...findings.map((f) =>
      html("li", { class: f.weight },
        html("span", { class: "mark", role: "img", "aria-label": weights[f.weight][1] },
          weights[f.weight][0]
        ),
        html("span", { class: "count" }, whole(f.count)),
        html("span", {},
          html("b", {}, f.name),
          f.of > 0 ? html("span", { class: "of" }, ` of ${whole(f.of)}`) : null,
          html("small", {}, f.means)
        )
      )
    ),
    ...remarks.filter((r) => r.weight !== "wrong").map(remark)
  );
}

function remark(r: Data["remarks"][number]): HTMLElement {
  return html("li", { class: r.weight },
    html("span", { class: "mark", role: "img", "aria-label": weights[r.weight][1] },
      weights[r.weight][0]
    ),
    html("span", { class: "remark" }, r.text)
  );
}

export function undecided(state: State): HTMLElement {
  const { undecided, missing } = state.data;
  const list =
    undecided.length === 0
      ? state.onlyMessages ? null : html("p", {},
          state.data.totals.tuples === 0
            ? "Anything: it has no tuples."
            : "It decides everything that was asked."
        )
      : html("ul", { class: "plain" }, ...undecided.map((u) => html("li", {}, u)));
  return html("div", {},
    list,
    missing.length === 0
      ? null
      : html("div", {},
          html("h3", { id: "missing" }, "Missing from the run"),
          html("ul", { class: "plain" },
            ...missing.map((m) => html("li", {}, html("code", {}, m.part), `: ${m.reason}`))
          )
        )
  );
}

export function assumptions(state: State): HTMLElement {
  const { assumptions } = state.data;
  if (assumptions.length === 0) return absent(["Nothing was related, so nothing was assumed."]);
  return html("div", { class: "scroll" },
    html("table", { class: "assumptions" },
      html("thead", {},
        html("tr", {},
          ...["assumption", "value", "verdict of the data", "what it means"].map((t) =>
            html("th", { scope: "col" }, t)
          )
        )
      ),
      html("tbody", {},
        ...assumptions.map((a) =>
          html("tr", {},
            html("th", { scope: "row" }, a.name),
            html("td", {}, a.value),
            html("td", { title: a.verdict === "suspect" ? estimateMeans : "" },
              a.verdict === "suspect"
                ? html("b", { class: "suspect-text" }, "suspect")
                : a.verdict === "consistent"
                  ? "consistent"
                  : "not tested by this run"
            ),
            html("td", { class: "means" }, a.means)
          )
        )
      )
    )
  );
}
