// Operators as boxes and transfers as arrows, each with its median and bound.

import { absent } from "./marks.ts";
import { html, picture, shorten, svg, textWidth } from "./dom.ts";
import type { Span } from "./data.ts";
import { edgeKey, place, type Place } from "./layout.ts";
import { compact, interval } from "./number.ts";
import type { State } from "./state.ts";
import { at, style } from "./spans.ts";

type Point = readonly [number, number];

export function graph(state: State): HTMLElement {
  const { data, format } = state;
  if (data.actors.length === 0) return absent(state.absent("graph"));
  const transfers = data.spans.filter((s) => s.kind === "transfer");
  const edges = new Map<string, { from: string; to: string; spans: Span[] }>();
  for (const s of transfers) {
    const key = edgeKey(s);
    const edge = edges.get(key) ?? { from: s.from, to: s.to, spans: [] };
    edge.spans.push(s);
    edges.set(key, edge);
  }
  // If tuples were made of other tuples, their path begins where the path of the others ended.
  for (const path of data.paths) {
    const ends = path.made_of.flatMap((origin) => data.paths[origin]!.ends);
    for (const from of ends) for (const to of path.begins) {
      const key = edgeKey({ from, to });
      if (from !== to && !edges.has(key)) edges.set(key, { from, to, spans: [] });
    }
  }
  const names = data.actors.map((a) => a.name);
  const { places, ways } = place(names, [...edges.values()]);
  const layers = 1 + Math.max(...[...places.values()].map((p) => p.layer));
  const slots = Math.max(...[...places.values()].map((p) => p.slots));
  const median = (s: Span) => {
    const p = at(s, 50);
    return p ? format.text(interval(p), s.verdict) + (s.lacks ? " ?" : "") : "–";
  };
  const own = (name: string) =>
    data.spans.filter((s) => s.kind === "computation" && s.from === name);
  const textsWidth = (name: string) => Math.max(
    textWidth(shorten(name, 18), 13, 600),
    ...own(name).slice(0, 1).map((s) => textWidth(median(s) + " …", 11))
  );
  const widest = Math.max(104, ...data.actors.map((a) => textsWidth(a.name) + 28));
  const boxWidth = Math.min(240, widest);
  const boxHeight = 52, lineHeight = 18;
  // The graph goes across the page if each arrow then has room for its label, and else down the
  // page. If it fits in neither direction, it is wider than the page.
  const labelWidth = (text: string) => textWidth(text, 11, 600);
  const label = Math.max(70, ...transfers.map((s) => labelWidth(median(s)) + 24));
  // In a graph that goes down, the distance between two layers is the height of the labels between
  // them.
  const tops = [8];
  for (let layer = 0; layer < layers; layer++) {
    const most = Math.max(
      1,
      ...[...edges.values()]
        .filter((e) => places.get(e.from)?.layer === layer)
        .map((e) => Math.min(4, e.spans.length))
    );
    tops.push(tops[layer]! + boxHeight + 30 + lineHeight * most);
  }
  // An arrow that leads back, such as that of a response, goes around the boxes, so that it is not
  // drawn over the arrow that leads forward.
  const leadsBack = (e: { from: string; to: string }) =>
    places.has(e.from) && places.has(e.to) &&
    places.get(e.to)!.layer <= places.get(e.from)!.layer;
  const below = 44;
  // In a graph that goes down, an arrow that leads back passes to the right of the boxes. Its
  // control points are this far from them. The curve goes only three quarters as far, which is
  // still beyond the labels of the arrows that lead down.
  const aside = Math.max(44, (label + 26 - boxWidth / 2) * 4 / 3);
  const anyBack = [...edges.values()].some(leadsBack);
  const acrossWidth = layers * boxWidth + (layers - 1) * label + 4;
  const over = Math.max(0, label - boxWidth / 2); // labels are on the right
  const beside = anyBack ? label + aside : 0;
  const downWidth = slots * (boxWidth + over + 12) + beside;
  const across = acrossWidth <= Math.max(state.width, downWidth);
  const width = Math.max(state.width, across ? acrossWidth : downWidth);
  const rows = across ? Math.max(112, slots * 112) : tops[layers - 1]! + boxHeight + 8;
  const height = rows + (across && anyBack ? lineHeight : 0);
  const centre = (name: string) => centreOf(places.get(name)!);
  const centreOf = (p: Place): [number, number] => {
    const along = layers === 1 ? 0.5 : p.layer / (layers - 1), slot = (p.slot + 0.5) / p.slots;
    return across
      ? [boxWidth / 2 + 2 + along * (width - boxWidth - 4), slot * rows]
      : [slot * (width - beside) - over / 2, tops[p.layer]! + boxHeight / 2];
  };
  /** pathBack returns the path of an arrow that leads back, and the middle of the path. */
  const pathBack = (e: { from: string; to: string }): [string, [number, number]] => {
    const [x1, y1] = centre(e.from), [x2, y2] = centre(e.to);
    const apart = e.from === e.to ? 14 : 0;
    if (across) {
      const a = y1 + boxHeight / 2, b = y2 + boxHeight / 2 + 7, low = Math.max(a, b) + below;
      return [
        `M${x1 + apart},${a}C${x1 + apart},${low} ${x2 - apart},${low} ${x2 - apart},${b}`,
        [(x1 + x2) / 2, (a + 3 * low + 3 * low + b) / 8],
      ];
    }
    const a = x1 + boxWidth / 2, b = x2 + boxWidth / 2 + 7, far = Math.max(a, b) + aside;
    return [
      `M${a},${y1 + apart}C${far},${y1 + apart} ${far},${y2 - apart} ${b},${y2 - apart}`,
      [(a + 3 * far + 3 * far + b) / 8, (y1 + y2) / 2],
    ];
  };

  /** pathForward returns the path of any other arrow, which passes between the boxes on its way,
   * and the middle of the path. */
  const pathForward = (from: Point, to: Point, way: Place[]): [string, Point] => {
    const half = (across ? boxWidth : boxHeight) / 2;
    const past = way.map((p) => {
      const [x, y] = centreOf(p);
      return across ? [[x - half, y], [x + half, y]] as const
        : [[x, y - half], [x, y + half]] as const;
    });
    const curve = ([x1, y1]: Point, [x2, y2]: Point) => {
      const bend = (across ? x2 - x1 : y2 - y1) / 2;
      return across ? `C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`
        : `C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`;
    };
    let path = `M${from[0]},${from[1]}`, at = from;
    for (const [begin, end] of past) {
      path += `${curve(at, begin)}L${end[0]},${end[1]}`;
      at = end;
    }
    const middle = way[Math.floor(way.length / 2)];
    return [path + curve(at, to),
      middle ? centreOf(middle) : [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2]];
  };

  const pick = (s: Span) => ({
    tabindex: 0,
    role: "button",
    "data-key": `edge-${s.id}`,
    "aria-pressed": s.id === state.span ? "true" : "false",
    click: () => state.set({ span: s.id }),
    keydown: (event: KeyboardEvent) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        state.set({ span: s.id });
      }
    },
  });
  const labels: (SVGElement | null)[] = []; // no arrow is drawn over a label
  const arrows = [...edges.values()].map((e) => {
    if (!places.has(e.from) || !places.has(e.to)) return null;
    const [x1, y1] = centre(e.from), [x2, y2] = centre(e.to);
    const [a, b] = across
      ? ([[x1 + boxWidth / 2, y1], [x2 - boxWidth / 2 - 7, y2]] as const)
      : ([[x1, y1 + boxHeight / 2], [x2, y2 - boxHeight / 2 - 7]] as const);
    const back = leadsBack(e), way = ways.get(edgeKey(e)) ?? [];
    const [path, mid] = back ? pathBack(e) : pathForward(a, b, way);
    const shown = e.spans.slice(0, 3);
    const left = e.spans.length - shown.length;
    const lines = shown.map((s, i) => {
      const text = median(s);
      const past = way.length > 0;
      const straight = across && !back && (past || Math.abs(a[1] - b[1]) < 8);
      const y = straight
        ? mid[1] - 12 - (shown.length - 1 - i) * lineHeight
        : mid[1] + 1 + (i - (shown.length - 1) / 2) * lineHeight;
      // If an arrow goes straight down, its label is beside it. The labels of all other arrows are
      // on them.
      const centred = across || !back && !past && Math.abs(a[0] - b[0]) > 40;
      const x = centred ? mid[0] : mid[0] + 18, half = labelWidth(text) / 2;
      return svg("g", {
        class: "edge-label", ...pick(s),
        "aria-label": `${s.name}, ${s.place}, ${s.nodes.join(" to ")}: median ${text}`,
      },
        svg("title", {},
          `${s.name}, ${s.place}, ${s.nodes.join(" → ")}: ${compact(s.count)} tuples`
        ),
        svg("rect", {
          x: (centred ? x - half : x) - 8, y: y - 13, width: 2 * half + 16, height: lineHeight,
          class: "target",
        }),
        svg("text", {
          x, y, class: `on-edge ${style(s)}${s.verdict === "suspect" ? " is-estimate" : ""}`,
          "text-anchor": centred ? "middle" : "start",
        },
          text
        )
      );
    });
    if (e.spans.length === 0) {
      return svg("g", {},
        svg("title", {}, `tuples that begin at ${e.to} were made of those that ended at ${e.from}`),
        svg("path", { d: path, class: "arrow made", "marker-end": "url(#tip-made)" })
      );
    }
    const count = Math.max(...e.spans.map((s) => s.count));
    const all = Math.max(1, ...transfers.map((s) => s.count));
    const remote = e.spans.some((s) => s.place === "remote");
    labels.push(...lines,
      left > 0
        ? svg("text", {
            x: across ? mid[0] : mid[0] + 12, y: across ? mid[1] + 16 : mid[1] + 36,
            "text-anchor": across ? "middle" : "start", class: "more",
          },
            `and ${left} more below`
          )
        : null);
    return svg("g", {},
      svg("path", {
        d: path, class: `arrow ${remote ? "remote" : "local"}`,
        "stroke-width": 1.2 + 2.2 * Math.sqrt(count / all),
        "marker-end": `url(#tip-${remote ? "remote" : "local"})`,
      })
    );
  });
  const boxes = data.actors.map((actor) => {
    const [x, y] = centre(actor.name);
    const computations = own(actor.name);
    const text = computations[0] ? median(computations[0]) : `${compact(actor.events)} events`;
    return svg("g", {},
      svg("title", {},
        `${actor.name} on ${actor.nodes.join(", ")}: ${compact(actor.events)} events`
      ),
      svg("rect", {
        x: x - boxWidth / 2,
        y: y - boxHeight / 2,
        width: boxWidth,
        height: boxHeight,
        rx: 7,
        class: computations.some((s) => s.verdict === "suspect") ? "actor is-estimate" : "actor",
      }),
      svg("text", { x, y: y - 10, "text-anchor": "middle", class: "actor-name" },
        shorten(actor.name, 18)
      ),
      svg("text", { x, y: y + 5, "text-anchor": "middle", class: "actor-time" },
        shorten(text, 28) + (computations.length > 1 ? " …" : "")
      ),
      svg("text", { x, y: y + 19, "text-anchor": "middle", class: "actor-nodes" },
        shorten(actor.nodes.join(", "), 20)
      )
    );
  });
  const tip = (name: string) =>
    svg("marker", {
      id: `tip-${name}`, viewBox: "0 0 8 8", refX: 1, refY: 4, markerWidth: 8, markerHeight: 8,
      markerUnits: "userSpaceOnUse", orient: "auto",
    },
      svg("path", { d: "M0,0L8,4L0,8z", class: `tip ${name}` })
    );
  const joined = [...edges.values()].filter((e) => e.spans.length > 0).length;
  const drawing = picture(width, height,
    `${data.actors.length} operators and ${joined} transfers between them`,
    svg("defs", {}, tip("remote"), tip("local"), tip("made")),
    ...arrows,
    ...labels,
    ...boxes
  );
  drawing.setAttribute("role", "group");
  return html("div", { class: "chart scroll" }, drawing);
}
