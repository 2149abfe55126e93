// Draws the matrix of nodes, with the bounds of pairs above the diagonal and the rates of their
// counters below it, and a table of facts about each machine.

import type { Pair } from "./data.ts";
import { html, replace, shorten } from "./dom.ts";
import { absent, estimate } from "./marks.ts";
import { whole } from "./number.ts";
import type { State } from "./state.ts";

/** rate says how much faster A's counter runs than B's. A small difference is printed as a share,
 * and a large one as a ratio. */
export function rate(p: Pair): string {
  if (!(p.rate > 0)) return "not known";
  const ppb = (p.rate - 1) * 1e9;
  if (Math.abs(ppb) >= 1e6) return `≈ ${p.rate.toFixed(6)}`;
  const [factor, unit] = Math.abs(ppb) >= 1000 ? [1000, "ppm"] : [1, "ppb"];
  return `≈ ${ppb < 0 ? "−" : "+"}${(Math.abs(ppb) / factor).toFixed(1)} ${unit}`;
}

export function matrix(state: State): HTMLElement {
  const { nodes, pairs } = state.data;
  if (nodes.length < 2 || pairs.length === 0) return absent(state.absent("nodes"));
  const format = state.format;
  const roomy = nodes.length <= Math.min(9, Math.floor((state.width - 90) / 118));
  const between = new Map<string, number>();
  pairs.forEach((p, i) => {
    between.set(JSON.stringify([p.a, p.b]), i);
    between.set(JSON.stringify([p.b, p.a]), i);
  });
  const related = pairs.filter((p) => p.verdict !== "" && p.bound_cycles > 0);
  const least = Math.min(...related.map((p) => p.bound_cycles));
  const most = Math.max(...related.map((p) => p.bound_cycles));
  const shade = (p: Pair) => p.bound_cycles > 0 && most > least
    ? 1 + Math.round(4 * Math.log(p.bound_cycles / least) / Math.log(most / least)) : 1;
  const name = (n: { name: string }) => shorten(n.name, 18);

  const cell = (row: number, column: number) => {
    const a = nodes[row]!, b = nodes[column]!;
    const i = between.get(JSON.stringify([a.name, b.name]));
    if (row === column) return html("td", { class: "self" }, "");
    const p = i === undefined ? undefined : pairs[i]!;
    if (p === undefined || p.verdict === "") {
      return html("td", { class: "unrelated", title: p?.reason ?? "not related" },
        roomy ? "not related" : "×"
      );
    }
    const upper = row < column;
    const text = upper ? format.bound(p.bound_cycles) : rate(p);
    const label = `${a.name} and ${b.name}: ${upper ? "bound" : "rate"} ${text}` +
      (p.verdict === "suspect" ? ", an estimate" : "");
    return html("td", {},
      html("button", {
        class: `cell ${upper ? `shade-${shade(p)}` : "rate"} ${p.verdict}`,
        "data-key": `cell-${row}-${column}`,
        title: label,
        "aria-label": label,
        "aria-pressed": i === state.pair ? "true" : "false",
        tabindex: row === 0 && column === 1 ? 0 : -1,
        click: () => state.set({ pair: i! }),
        keydown: (event: KeyboardEvent) => move(event, row, column),
      },
        roomy ? text : "",
        roomy ? estimate(p.verdict) : null
      )
    );
  };
  const move = (event: KeyboardEvent, row: number, column: number) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[
      event.key
    ];
    if (!step) return;
    event.preventDefault();
    for (
      let r = row + step[0]!, c = column + step[1]!;
      r >= 0 && c >= 0 && r < nodes.length && c < nodes.length;
      r += step[0]!, c += step[1]!
    ) {
      const next = table.querySelector<HTMLElement>(`[data-key="cell-${r}-${c}"]`);
      if (next) {
        next.focus();
        return;
      }
    }
  };
  const table = html("table", { class: roomy ? "matrix" : "matrix dense" },
    html("thead", {},
      html("tr", {},
        html("td", {}),
        ...nodes.map((n) => html("th", { scope: "col" }, html("span", { title: n.name }, name(n))))
      )
    ),
    html("tbody", {},
      ...nodes.map((n, row) =>
        html("tr", {},
          html("th", { scope: "row", title: n.name }, name(n)),
          ...nodes.map((_, column) => cell(row, column))
        )
      )
    )
  );
  const detail = html("div", { class: "pair-detail", "aria-live": "polite" });
  replace(detail, pairDetail(state, pairs[Math.min(state.pair, pairs.length - 1)]!));
  return html("div", {}, html("div", { class: "scroll" }, table), detail);
}

function pairDetail(state: State, p: Pair): HTMLElement {
  const format = state.format;
  if (p.verdict === "")
    return html("p", {},
      html("b", {}, `${p.a} and ${p.b}`),
      ` are not related: ${p.reason || "no reason is known"}.`
    );
  const fact = (name: string, ...content: (Node | string | null)[]) =>
    html("div", {}, html("dt", {}, name), html("dd", {}, ...content));
  return html("div", {},
    html("h3", {}, `${p.a} and ${p.b}`, " ", estimate(p.verdict)),
    p.reason ? html("p", { class: "reason" }, p.reason) : null,
    html("dl", { class: "facts" },
      fact("bound, median", format.bound(p.bound_cycles, p.verdict)),
      fact("bound, worst", format.bound(p.worst_cycles, p.verdict)),
      fact(`rate of ${p.a} to ${p.b}`, rate(p)),
      fact("wander of the bound", `${+(p.wander_ppb / 1000).toFixed(3)} ppm`),
      fact("least wander the data allow", `${+(p.least_ppb / 1000).toFixed(3)} ppm`),
      p.exchanges > 0
        ? fact("exchanges", `${whole(p.exchanges)} in ${whole(p.trains)} trains`)
        : null,
      p.paths ? fact("paths", p.paths) : null
    )
  );
}

export function machines(state: State): HTMLElement {
  const { nodes } = state.data;
  const missing = state.absent("facts");
  if (!nodes.some((n) => n.facts.length > 0)) return absent(missing);
  const names = [...new Set(nodes.flatMap((n) => n.facts.map((f) => f.name)))];
  // If there are few nodes, each node is a column. The columns of many nodes would not fit on the
  // page, so then each node is a row.
  const cell = (node: (typeof nodes)[number], fact: string) =>
    html("td", {},
      node.facts.find((f) => f.name === fact)?.value ?? html("span", { class: "nothing" }, "–")
    );
  const head = (n: (typeof nodes)[number]) => [
    n.name,
    n.virtual ? html("small", {}, "virtual") : null,
    n.left ? html("small", { class: "left" }, `left: ${n.left}`) : null,
  ];
  const few = nodes.length <= 4 && state.width > 600;
  const table = few
    ? html("table", { class: "machines" },
        html("thead", {},
          html("tr", {},
            html("td", {}),
            ...nodes.map((n) => html("th", { scope: "col" }, ...head(n)))
          )
        ),
        html("tbody", {},
          html("tr", {},
            html("th", { scope: "row" }, "epoch"),
            ...nodes.map((n) => html("td", {}, n.epoch || "–"))
          ),
          ...names.map((f) =>
            html("tr", {}, html("th", { scope: "row" }, f), ...nodes.map((n) => cell(n, f)))
          )
        )
      )
    : html("table", { class: "machines" },
        html("thead", {},
          html("tr", {},
            html("th", { scope: "col" }, "node"),
            html("th", { scope: "col" }, "epoch"),
            ...names.map((f) => html("th", { scope: "col" }, f))
          )
        ),
        html("tbody", {},
          ...nodes.map((n) =>
            html("tr", {},
              html("th", { scope: "row" }, ...head(n)),
              html("td", {}, n.epoch || "–"),
              ...names.map((f) => cell(n, f))
            )
          )
        )
      );
  return html("div", {},
    html("div", { class: "scroll" }, table),
    missing.length > 0 ? absent(missing) : null
  );
}
