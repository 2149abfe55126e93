// Shows what is known only if nodes are virtual: whether intervals contain the truth, and how large
// each error is, as a share of its bound.

import type { Held, TrueSpan, TrueMethod } from "./data.ts";
import { xAxis, valueScale, type Scale } from "./axis.ts";
import { html, picture, svg } from "./dom.ts";
import { absent, value } from "./marks.ts";
import { whole } from "./number.ts";
import { methods, methodStyle } from "./overtime.ts";
import type { State } from "./state.ts";
import { style } from "./spans.ts";

const rowHeight = 34;

/** percent prints a share of a bound, rounded up. */
export function percent(share: number): string {
  return share > 9.99 ? "> 999 %" : `${Math.ceil(share * 100 - 1e-9)} %`;
}

export function outside(h: Held): HTMLElement {
  return html("span", { class: h.outside === 0 ? "all-inside" : "some-outside" },
    h.outside === 0 ? "none" : whole(h.outside)
  );
}

export function truth(state: State): HTMLElement {
  const { truth } = state.data;
  if (truth.durations.held === 0) return absent(state.absent("truth"));
  const wide = state.width >= 760;
  const plotWidth = wide ? Math.min(320, Math.floor(state.width * 0.3)) : 132;
  const x = valueScale(0, 1, [16, plotWidth - 24], false, 4, false);
  const axis = picture(
    plotWidth,
    22,
    "axis",
    xAxis(x, plotWidth, 2, 2, (v) => `${Math.round(v * 100)} %`)
  );
  const head = (first: string, held: string, ...more: string[]) =>
    html("thead", {},
      html("tr", {},
        html("th", { scope: "col" }, first),
        ...[held, "outside", ...more].map((t) => html("th", { scope: "col", class: "number" }, t)),
        html("th", { scope: "col", class: "plot" }, "used of the bound", axis.cloneNode(true)),
        ...["half, at most", "99 %", "largest"].map((t) =>
          html("th", { scope: "col", class: "number" }, t)
        )
      )
    );
  const used = (h: Held, kind: string, name: string) => [
    html("td", { class: "plot" }, histogram(h, x, plotWidth, kind, name)),
    ...[h.used_50, h.used_99, h.largest].map((u) =>
      html("td", { class: u > 1 ? "number some-outside" : "number" }, percent(u))
    ),
  ];
  const leg = (l: TrueSpan) => {
    const middle = (l.median.lo_cycles + l.median.hi_cycles) / 2;
    const off = Math.max(
      Math.abs(middle - l.true_median.lo_cycles),
      Math.abs(middle - l.true_median.hi_cycles)
    );
    return html("tr", {},
      html("th", { scope: "row", title: l.points },
        html("i", { class: `swatch ${style(l)}` }),
        l.name,
        html("small", {}, l.place === "remote" ? "between nodes" : "within a node")
      ),
      html("td", { class: "number" }, whole(l.held.held)),
      html("td", { class: "number" }, outside(l.held)),
      html("td", { class: "number" },
        html("div", {}, value(state.format, l.median, "")),
        html("small", {
          class: "number",
          title:
            "how far the middle is from the true median; that is known to a few cycles, " +
            "or, with many durations, as finely as they are rounded",
        },
          off > 0 ? `off by ${state.format.most(off)}` : "exact"
        )
      ),
      ...used(l.held, style(l), l.name)
    );
  };
  const method = (m: TrueMethod) => {
    const kind = methodStyle(m.name);
    return html("tr", {},
      html("th", { scope: "row" },
        html("i", { class: `swatch ${kind}` }),
        methods[m.name]?.[0] ?? m.name,
        m.about ? html("small", {}, "about ", m.about) : null
      ),
      html("td", { class: "number" }, whole(m.held.held), html("small", {}, m.what)),
      html("td", { class: "number" }, outside(m.held)),
      ...used(m.held, kind, m.name)
    );
  };
  const { durations, remote } = truth;
  return html("div", {},
    html("p", { class: durations.outside === 0 ? "banner good" : "banner suspect" },
      html("b", {},
        durations.outside === 0 ? "All true. " : `${whole(durations.outside)} are not true. `
      ),
      `${whole(durations.held)} durations were checked against the truth, ` +
        `${whole(remote.held)} of them between nodes: `,
      durations.outside === 0
        ? "the interval of each contains it"
        : "an assumption is broken, or this is a defect",
      remote.held > 0
        ? `. Between nodes the error used at most ${percent(remote.largest)} of the bound.`
        : "."
    ),
    html("div", { class: "scroll" },
      html("table", { class: "truth" },
        head("span", "durations", "median"),
        html("tbody", {}, ...truth.spans.map(leg))
      )
    ),
    truth.methods.length === 0
      ? null
      : html("h3", {}, "What each method said about all pairs of nodes"),
    truth.methods.length === 0
      ? null
      : html("div", { class: "scroll" },
          html("table", { class: "truth" },
            head("method", "held"),
            html("tbody", {}, ...truth.methods.map(method))
          )
        )
  );
}

function histogram(h: Held, x: Scale, width: number, kind: string, name: string): SVGElement {
  const most = Math.max(...h.shares, 1e-9);
  const base = rowHeight - 5;
  const step = 1 / Math.max(1, h.shares.length);
  const text =
    `${name}: half of the errors used at most ${percent(h.used_50)} of their bound, ` +
    `99 % at most ${percent(h.used_99)}, the largest ${percent(h.largest)}` +
    (h.outside > 0 ? `; ${whole(h.outside)} are outside` : "");
  return picture(
    width,
    rowHeight,
    text,
    svg("title", {}, text),
    svg("line", { x1: x(0), x2: x(1), y1: base, y2: base, class: "rule" }),
    svg("line", { x1: x(1), x2: x(1), y1: 4, y2: base, class: "limit" }),
    ...h.shares.map((share, i) =>
      share > 0
        ? svg("rect", {
            x: x(i * step) + 0.5, width: Math.max(1, x(step) - x(0) - 1),
            y: base - Math.max(1.5, ((base - 6) * share) / most),
            height: Math.max(1.5, ((base - 6) * share) / most), class: `bar ${kind}`,
          })
        : null
    ),
    h.outside > 0
      ? svg("path", { d: `M${x(1) + 3},${base - 8}l8,8m0,-8l-8,8`, class: "beyond" })
      : null
  );
}
