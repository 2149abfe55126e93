// The graph of the programs that exchange messages. Each program is a box. A line between two boxes
// has the median transfer time of each direction.

import { html, picture, shorten, svg, textWidth } from "./dom.ts";
import type { Service, Talk } from "./data.ts";
import { edgeKey, place, type Place } from "./layout.ts";
import { absent, value } from "./marks.ts";
import { compact, interval } from "./number.ts";
import type { State } from "./state.ts";

type Point = readonly [number, number];

/** Line is what two services exchange: the one that asks is first. */
interface Line { from: string; to: string; there: Talk; back?: Talk }

const boxHeight = 54, rowHeight = 96, lineHeight = 16;

/** lines joins the two directions between each two services. */
export function lines(talks: Talk[]): Line[] {
  const asked = talks.filter((t) => t.asks);
  const both = (a: Talk, b: Talk) => a.from === b.to && a.to === b.from;
  const alone = talks.filter((t) => !t.asks && !asked.some((a) => both(a, t)));
  return [...asked, ...alone].map((there) => ({
    from: String(there.from),
    to: String(there.to),
    there,
    back: there.from === there.to ? undefined : talks.find((t) => !t.asks && both(t, there)),
  }));
}

const nameOf = (s: Service) => s.name || "unknown";

export function talks(state: State): HTMLElement {
  const { messages } = state.data;
  if (messages.services.length === 0) return absent(state.absent("messages"));
  return html("div", {}, drawing(state), table(state), rest(state));
}

function median(state: State, t: Talk | undefined): string {
  const p = t?.transfer.find((p) => p.p === 50);
  return p ? state.format.text(interval(p), t!.verdict) : "not known";
}

/** labelOf returns the lines of text beside a line of the graph. */
function labelOf(state: State, l: Line, tips = "→←"): string[] {
  const known = (t: Talk | undefined) => t !== undefined && t.transfer.length > 0;
  if (!known(l.there) && !known(l.back)) return [`${compact(l.there.messages)} messages`];
  const there = `${tips[0]} ${median(state, l.there)}`;
  return l.back ? [there, `${tips[1]} ${median(state, l.back)}`] : [there];
}

/**
 * Frame says where things are. The graph goes across the page if each line has room for its label,
 * else down. `along` counts from layer to layer, and `beside` from slot to slot.
 */
class Frame {
  readonly width: number;
  readonly height: number;
  readonly half: { along: number; beside: number }; // of a box
  readonly across: boolean;
  private readonly step: { along: number; beside: number };
  private readonly begin: number; // of the slots

  constructor(window: number, readonly boxWidth: number, label: number, readonly layers: number,
    slots: number, back: boolean) {
    const needs = layers * boxWidth + (layers - 1) * (label + 14) + 4;
    this.across = needs <= window;
    const gaps = Math.max(1, layers - 1);
    if (this.across) {
      this.width = window;
      this.step = { along: (window - boxWidth - 4) / gaps, beside: rowHeight };
      this.height = slots * rowHeight + (back ? 40 : 0);
      this.begin = 0;
    } else {
      const room = Math.max(boxWidth, label) + 18;
      this.width = Math.max(window, slots * room + (back ? 120 : 0));
      const beside = Math.min(300, (this.width - (back ? 120 : 0)) / slots);
      this.step = { along: boxHeight + 66, beside };
      this.height = boxHeight + (layers - 1) * this.step.along + 8;
      this.begin = Math.max(0, (this.width - (back ? 120 : 0) - slots * beside) / 2);
    }
    const [x, y] = [boxWidth / 2, boxHeight / 2];
    this.half = this.across ? { along: x, beside: y } : { along: y, beside: x };
  }

  /** at returns the centre of a place. */
  at(p: Place): Point {
    const along = this.across && this.layers === 1
      ? this.width / 2
      : this.half.along + 2 + p.layer * this.step.along;
    return this.point(along, this.begin + (p.slot + 0.5) * this.step.beside);
  }

  /** point swaps the coordinates if the graph goes down. It is its own inverse. */
  point(along: number, beside: number): Point {
    return this.across ? [along, beside] : [beside, along];
  }

  /**
   * route returns the path of a line and its middle. A line that leads back, or to its own box,
   * goes around the boxes.
   */
  route(a: Place, b: Place, way: Place[]): [string, Point] {
    const place = (p: Place) => this.point(...this.at(p));
    const text = (...points: Point[]) =>
      points.map(([along, beside]) => this.point(along, beside).join()).join(" ");
    const [from, to] = [place(a), place(b)], tip = 7;
    if (b.layer <= a.layer) {
      const apart = a === b ? 16 : 0;
      const begin = from[1] + this.half.beside, end = to[1] + this.half.beside;
      const far = Math.max(begin, end) + 40;
      return [
        `M${text([from[0] + apart, begin + tip])}C${text([from[0] + apart, far],
          [to[0] - apart, far], [to[0] - apart, end + tip])}`,
        this.point((from[0] + to[0]) / 2, (begin + 6 * far + end) / 8),
      ];
    }
    const curve = ([x1, y1]: Point, [x2, y2]: Point) => {
      const bend = (x2 - x1) / 2;
      return `C${text([x1 + bend, y1], [x2 - bend, y2], [x2, y2])}`;
    };
    let at: Point = [from[0] + this.half.along + tip, from[1]], path = `M${text(at)}`;
    let middle: Point | undefined;
    for (const [x, y] of way.map(place)) {
      path += `${curve(at, [x - this.half.along, y])}L${text([x + this.half.along, y])}`;
      middle ??= [x, y];
      at = [x + this.half.along, y];
    }
    const end: Point = [to[0] - this.half.along - tip, to[1]];
    const between: Point = [(at[0] + end[0]) / 2, (at[1] + end[1]) / 2];
    return [path + curve(at, end), this.point(...(middle ?? between))];
  }
}

function drawing(state: State): HTMLElement {
  const { services, talks } = state.data.messages;
  const nodes = [...new Set(services.map((s) => s.node))];
  const all = lines(talks);
  const { places, ways } = place(services.map((_, i) => String(i)), all);
  const everywhere = [...places.values(), ...[...ways.values()].flat()];
  const slots = Math.max(...everywhere.map((p) => p.slots));
  // A layer with fewer boxes has them in the middle of as many slots.
  const spread = (p: Place): Place =>
    ({ layer: p.layer, slot: ((p.slot + 0.5) / p.slots) * slots - 0.5, slots });
  const under = (s: Service) => (s.port > 0 ? `${s.node} :${s.port}` : s.node);
  const boxWidth = Math.min(200, Math.max(104, ...services.flatMap((s) => [
    textWidth(shorten(nameOf(s), 20), 13, 600) + 34, textWidth(shorten(under(s), 24), 11) + 34,
  ])));
  const label = Math.max(60, ...all.flatMap((l) => labelOf(state, l)).map((t) =>
    textWidth(t, 11, 600) + 16));
  const isBack = (l: Line) => places.get(l.to)!.layer <= places.get(l.from)!.layer;
  const frame = new Frame(state.width, boxWidth, label,
    1 + Math.max(...everywhere.map((p) => p.layer)), slots, all.some(isBack));
  const most = Math.max(1, ...talks.map((t) => t.messages));
  const arrows: SVGElement[] = [], labels: SVGElement[] = [];
  for (const l of all) {
    const from = services[l.there.from]!, to = services[l.there.to]!;
    const kind = from.node === to.node ? "local" : "remote";
    const a = spread(places.get(l.from)!);
    const b = l.from === l.to ? a : spread(places.get(l.to)!);
    const [path, middle] = frame.route(a, b, (ways.get(edgeKey(l)) ?? []).map(spread));
    const title = [l.there, ...(l.back ? [l.back] : [])].map((t) => about(state, t)).join("\n");
    arrows.push(svg("path", {
      d: path, class: `arrow ${kind}`, "marker-end": `url(#talk-${kind})`,
      "marker-start": l.back ? `url(#talk-${kind})` : null,
      "stroke-width": 1.2 + 3 * Math.sqrt(l.there.messages / most),
    }, svg("title", {}, title)));
    const texts = labelOf(state, l, frame.across ? "→←" : "↓↑");
    labels.push(svg("g", { class: "talk-label" }, svg("title", {}, title), ...texts.map((text, i) =>
      svg("text", {
        x: middle[0], y: middle[1] + 4 + (i - (texts.length - 1) / 2) * lineHeight,
        "text-anchor": "middle",
        class: `on-edge ${kind}` +
          ((i === 0 ? l.there : l.back!).verdict === "suspect" ? " is-estimate" : ""),
      }, text))));
  }
  const boxes = services.map((s, i) => {
    const [x, y] = frame.at(spread(places.get(String(i))!));
    const left = x - boxWidth / 2, top = y - boxHeight / 2;
    return svg("g", {},
      svg("title", {}, `${nameOf(s)} on ${s.node}` + (s.port > 0 ? `, port ${s.port}` : "")),
      svg("rect", { x: left, y: top, width: boxWidth, height: boxHeight, rx: 7, class: "actor" }),
      svg("rect", {
        x: left + 6, y: top + 8, width: 4, height: boxHeight - 16, rx: 2, fill: "currentcolor",
        class: `series-${nodes.indexOf(s.node) % 6}`,
      }),
      svg("text", { x: x + 5, y: y - 3, "text-anchor": "middle", class: "actor-name" },
        shorten(nameOf(s), 20)),
      svg("text", { x: x + 5, y: y + 14, "text-anchor": "middle", class: "actor-nodes" },
        shorten(under(s), 24)));
  });
  const tip = (name: string) =>
    svg("marker", {
      id: `talk-${name}`, viewBox: "0 0 8 8", refX: 1, refY: 4, markerWidth: 8, markerHeight: 8,
      markerUnits: "userSpaceOnUse", orient: "auto-start-reverse",
    }, svg("path", { d: "M0,0L8,4L0,8z", class: `tip ${name}` }));
  const picked = picture(frame.width, frame.height,
    `${services.length} programs and ${all.length} pairs that exchanged messages`,
    svg("defs", {}, tip("remote"), tip("local")), ...arrows, ...labels, ...boxes);
  return html("div", { class: "chart scroll" }, picked);
}

function about(state: State, t: Talk): string {
  const [from, to] = [t.from, t.to].map((i) => state.data.messages.services[i]!);
  return `${nameOf(from!)} on ${from!.node} → ${nameOf(to!)} on ${to!.node}: ` +
    `${compact(t.messages)} messages, ${bytes(t.bytes)}, ${compact(t.connections)} connections, ` +
    `median ${median(state, t)}`;
}

/** bytes prints a number of bytes. */
export function bytes(n: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) {
    n /= 1000;
    i++;
  }
  return `${i === 0 ? n : n.toPrecision(3)} ${units[i]}`;
}

function table(state: State): HTMLElement {
  const { services, talks } = state.data.messages;
  const program = (i: number) => html("span", {}, html("b", {}, nameOf(services[i]!)), " ",
    html("span", { class: "of" }, `on ${services[i]!.node}`));
  const at = (t: Talk, p: number) => value(state.format, t.transfer.find((q) => q.p === p),
    t.transfer.length > 0 ? t.verdict : "");
  return html("div", { class: "scroll" }, html("table", { class: "talks" },
    html("thead", {}, html("tr", {},
      ...["from", "to", "messages", "bytes", "connections", "transfer, median", "99 %"]
        .map((name, i) => html("th", { scope: "col", class: i > 1 ? "figure" : "" }, name)))),
    html("tbody", {}, ...talks.map((t) => html("tr", {},
      html("td", {}, program(t.from)),
      html("td", {}, program(t.to)),
      html("td", { class: "figure" }, compact(t.messages)),
      html("td", { class: "figure" }, bytes(t.bytes)),
      html("td", { class: "figure" }, compact(t.connections)),
      html("td", { class: "figure" }, at(t, 50)),
      html("td", { class: "figure" }, at(t, 99),
        t.backwards > 0 ? html("small", {}, ` ${t.backwards} received before sent`) : null))))));
}

/** rest says which messages the graph does not show. */
function rest(state: State): HTMLElement {
  const m = state.data.messages;
  const reasons = [
    ...m.left.map((l) => `${compact(l.messages)} sent, receiver not known: ${l.reason}`),
    ...m.lost.map((l) => `${compact(l.messages)} lost on ${l.node}: ${l.reason}`),
    ...(m.without > 0 ? [`${m.without} pairs with fewer messages are not shown`] : []),
  ];
  return html("div", {},
    html("p", {}, `${compact(m.sent)} calls sent, and ${compact(m.received)} received. Of ` +
      `${compact(m.matched)} messages, both ends are known.`),
    reasons.length > 0
      ? html("ul", { class: "plain" }, ...reasons.map((r) => html("li", {}, r)))
      : null);
}
