// Draws the charts over time: the latency of one span, the throughput, and the bound that each
// method claims for a pair of nodes.

import type { Column, Method } from "./data.ts";
import { html } from "./dom.ts";
import { absent, estimate, notAll } from "./marks.ts";
import { compact, interval } from "./number.ts";
import { pausesSentence } from "./pauses.ts";
import { samePair, type State } from "./state.ts";
import { timeChart, type Line } from "./timechart.ts";

const drawn = (state: State, c: Column): Column =>
  c.map((v) => (v === null ? null : state.format.draw(v)));

export function latency(state: State): HTMLElement {
  const s = state.chosen();
  const any = state.data.spans.some((x) => x.over.length > 0);
  if (!any) return absent(state.absent("latency"));
  const choose = html("label", { class: "choose" },
    "Span ",
    html("select", {
      "data-key": "choose-span",
      change: (e: Event) => state.set({ span: (e.target as HTMLSelectElement).value }),
    },
      ...state.data.spans.map((x) =>
        html("option", { value: x.id, selected: x.id === state.span },
          `${x.name}, ${x.place}` +
            (x.place === "remote" || x.nodes.length ? ` (${x.nodes.join(" → ")})` : "") +
            (x.verdict === "suspect" ? ", estimate" : "")
        )
      )
    )
  );
  const kept = s?.over_same ? state.data.spans.find((x) => x.id === s.over_same) : s;
  const together =
    s && kept ? state.data.spans.filter((x) => (x.over_same || x.id) === kept.id) : [];
  const verdict = together.some((x) => x.verdict === "suspect") ? "suspect" : "consistent";
  if (!s || !kept || kept.over.length === 0)
    return html("div", {}, choose, absent(["This span has no values over time."]));
  const lacks = together.find((x) => x.lacks)?.lacks ?? "";
  const styles: Record<string, string> = { "50": "p50", "99": "p99", "100": "p100" };
  const lines: Line[] = kept.over.map((o) => ({
    name: o.p === 50 ? "median" : o.p === 100 ? "slowest" : `${o.p} %`,
    style: styles[String(o.p)] ?? "p99",
    dashed: verdict === "suspect",
    lo: drawn(state, o.lo_cycles),
    hi: drawn(state, o.hi_cycles),
    text: (b) =>
      o.lo_cycles[b] === null || o.lo_cycles[b] === undefined
        ? "–"
        : state.format.text(
            interval({ lo_cycles: o.lo_cycles[b]!, hi_cycles: o.hi_cycles[b]! }),
            verdict
          ),
  }));
  return html("div", {},
    html("div", { class: "row" },
      choose,
      estimate(verdict),
      lacks
        ? html("span", { class: "hint" }, notAll(lacks), ` Not of all tuples: ${lacks}.`)
        : null,
      together.length > 1
        ? html("span", { class: "hint" },
            `${together.length} parts of this span together: over time they were not kept apart.`
          )
        : null
    ),
    kept.pauses ? html("p", { class: "means note" }, pausesSentence(kept.pauses)) : null,
    timeChart(state, {
      key: "time-latency",
      label: `Latency of ${s.name} over time`,
      lines,
      log: state.log,
      zero: true,
      tick: (v) => state.format.tick(v),
    })
  );
}

export function throughput(state: State): HTMLElement {
  const { throughput, timeline } = state.data;
  if (throughput.length === 0) return absent(state.absent("throughput"));
  const seconds = state.format.unit === "seconds";
  // The chart shows events per second or, if the page's unit is cycles, events per million cycles.
  const per = seconds ? state.format.draw(timeline.bucket_cycles) : timeline.bucket_cycles / 1e6;
  const lines: Line[] = throughput.map((t, i) => {
    const rate = t.count.map((c) => (c === null ? null : c / per));
    return {
      name: t.name,
      style: `series-${i % 6}`,
      lo: rate,
      hi: rate,
      text: (b) =>
        rate[b] === null || rate[b] === undefined
          ? "–"
          : `${compact(rate[b]!)}/${seconds ? "s" : "Mcycle"}`,
    };
  });
  return html("div", {},
    html("p", { class: "axis-unit" }, seconds ? "per second" : "per million cycles"),
    timeChart(state, {
      key: "time-throughput", label: "Throughput over time", lines, log: false, zero: true,
      tick: compact, height: 220,
    }),
    html("details", {},
      html("summary", {}, "What was counted"),
      html("ul", {},
        ...throughput.map((t) => html("li", {}, html("b", {}, t.name), `: ${t.source}`))
      )
    )
  );
}

export const methods: Record<string, [string, string]> = {
  cloudprofiler: ["Cloudprofiler", "proven under the assumptions below"],
  minrtt: [
    "plain MinRTT",
    "half of the smallest round trips before and after, and the wander since",
  ],
  ret: ["return trip (ReT)", "half of the round trip of a tuple's acknowledgement, median"],
  ntp: ["NTP", "|offset| + dispersion + delay/2 of both nodes, as chrony claims"],
};

/** methodStyle returns the class that colours a method. */
export function methodStyle(name: string): string {
  return `method-${name in methods ? name : "other"}`;
}

export function median(c: Column): number | null {
  const v = c.filter((x): x is number => x !== null).sort((a, b) => a - b);
  return v.length === 0 ? null : v[Math.ceil(v.length / 2) - 1]!;
}

export function bounds(state: State): HTMLElement {
  const { comparisons, pairs } = state.data;
  if (comparisons.length === 0) return absent(state.absent("bounds"));
  const pair = pairs[state.pair];
  const chosen = comparisons.find((c) => pair && samePair(c, pair));
  const c = chosen ?? comparisons[0]!;
  const choose = html("label", { class: "choose" },
    "Pair ",
    html("select", {
      "data-key": "choose-pair",
      change: (e: Event) => {
        const other = comparisons[Number((e.target as HTMLSelectElement).value)]!;
        const i = pairs.findIndex((p) => samePair(p, other));
        if (i >= 0) state.set({ pair: i });
      },
    },
      ...comparisons.map((x, i) =>
        html("option", { value: i, selected: x === c },
          `${x.a} and ${x.b}${x.verdict === "suspect" ? ", estimate" : ""}`
        )
      )
    )
  );
  const present = c.methods.filter((m) => m.bound_cycles.some((v) => v !== null));
  const lines: Line[] = present.map((m) => {
    const column = drawn(state, m.bound_cycles);
    const isEstimate = m.name === "cloudprofiler" && c.verdict === "suspect";
    return {
      name: methods[m.name]?.[0] ?? m.name,
      style: methodStyle(m.name),
      lo: column,
      hi: column,
      dashed: isEstimate,
      text: (b) =>
        m.bound_cycles[b] === null || m.bound_cycles[b] === undefined
          ? "–"
          : state.format.bound(m.bound_cycles[b]!, isEstimate ? "suspect" : "consistent"),
    };
  });
  const row = (m: Method) => {
    const middle = median(m.bound_cycles);
    const [name, means] = methods[m.name] ?? [m.name, ""];
    const verdict = m.name === "cloudprofiler" ? c.verdict : "consistent";
    return html("tr", {},
      html("th", { scope: "row" }, html("i", { class: `swatch ${methodStyle(m.name)}` }), name),
      html("td", { class: "number" },
        middle === null ? html("span", { class: "nothing" }, "absent") : state.format.bound(middle),
        " ",
        estimate(verdict)
      ),
      html("td", { class: "number" },
        m.times > 0 ? `${Number(m.times.toPrecision(3))} ×` : "–"
      ),
      html("td", { class: "means" },
        middle === null
          ? m.absent || "no value"
          : m.name === "cloudprofiler" && !m.proven
            ? "an estimate here: the data refute what would prove it"
            : m.gaps > 0
              ? `${means}; no value in ${m.gaps} of ${m.bound_cycles.length} bins`
              : means
      )
    );
  };
  return html("div", {},
    html("div", { class: "row" },
      choose,
      estimate(c.verdict),
      pair && !chosen
        ? html("span", { class: "hint" }, `${pair.a} and ${pair.b} were not compared.`)
        : null
    ),
    timeChart(state, {
      key: "time-bounds",
      label: `Bounds of ${c.a} and ${c.b} over time, by method`,
      lines,
      log: state.log,
      zero: true,
      tick: (v) => state.format.tick(v),
      height: 260,
    }),
    html("div", { class: "scroll" },
      html("table", { class: "methods" },
        html("thead", {},
          html("tr", {},
            html("th", { scope: "col" }, "method"),
            html("th", { scope: "col", class: "number" }, "median bound"),
            html("th", { scope: "col", class: "number" }, "to ours, at the same moments"),
            html("th", { scope: "col" }, "what it rests on")
          )
        ),
        html("tbody", {}, ...c.methods.map(row))
      )
    )
  );
}
