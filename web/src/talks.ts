// Draws the graph of the programs that exchange messages. Each program is a box. The label of a
// line between two boxes shows the median transfer time in each direction.

import { html, picture, shorten, svg, textWidth } from "./dom.ts";
import type { Service, Talk } from "./data.ts";
import { edgeKey, place, type Place } from "./layout.ts";
import { absent } from "./marks.ts";
import { compact } from "./number.ts";
import type { State } from "./state.ts";
import { bytes, median, nameOf, parts, rest, table } from "./talk-tables.ts";

type Point = readonly [number, number];

/** Line is a line of the graph: what two services exchange. `from` is the service that asks. */
interface Line { from: string; to: string; there: Talk; back?: Talk }

const lineHeight = 16;

/** lines joins the two directions between every pair of services. */
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

export function talks(state: State): HTMLElement {
  const { messages } = state.data;
  if (messages.services.length === 0) return absent(state.absent("messages"));
  return html("div", {}, drawing(state), table(state), parts(state), rest(state));
}

/** labelOf returns the lines of text beside a line of the graph. */
function labelOf(state: State, l: Line, tips = "→←"): string[] {
  const known = (t: Talk | undefined) => t !== undefined && t.transfer.length > 0;
  if (!known(l.there) && !known(l.back)) return [`${compact(l.there.messages)} messages`];
  const there = `${tips[0]} ${median(state, l.there)}`;
  return l.back ? [there, `${tips[1]} ${median(state, l.back)}`] : [there];
}

/**
 * Frame computes coordinates. The graph goes across the page if each line then has room for its
 * label, and else down the page. The coordinate `along` goes from layer to layer, and `beside` from
 * slot to slot within a layer.
 */
class Frame {
  readonly width: number;
  readonly height: number;
  readonly half: { along: number; beside: number }; // of a box
  readonly across: boolean;
  private readonly step: { along: number; beside: number };
  private readonly begin: number; // of the slots

  constructor(window: number, readonly boxWidth: number, readonly boxHeight: number, label: number,
    readonly layers: number, slots: number, back: boolean) {
    const rowHeight = boxHeight + 42;
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
   * route returns the path of a line, and the points at which its label may be: the best one first.
   * A line that leads back, or to its own box, goes around the boxes.
   */
  route(a: Place, b: Place, way: Place[]): [string, Point[]] {
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
        [this.point((from[0] + to[0]) / 2, (begin + 6 * far + end) / 8)],
      ];
    }
    const curve = ([x1, y1]: Point, [x2, y2]: Point) => {
      const bend = (x2 - x1) / 2;
      return `C${text([x1 + bend, y1], [x2 - bend, y2], [x2, y2])}`;
    };
    let at: Point = [from[0] + this.half.along + tip, from[1]], path = `M${text(at)}`;
    const labels: Point[] = [];
    for (const [x, y] of way.map(place)) {
      path += `${curve(at, [x - this.half.along, y])}L${text([x + this.half.along, y])}`;
      labels.push(this.point(x, y));
      at = [x + this.half.along, y];
    }
    const end: Point = [to[0] - this.half.along - tip, to[1]];
    for (const t of [0.62, 0.5, 0.74, 0.38, 0.26]) labels.push(this.point(...bezier(at, end, t)));
    return [path + curve(at, end), labels];
  }
}

/** bezier returns a point of the curve that leads from one point to another. */
function bezier([x1, y1]: Point, [x2, y2]: Point, t: number): Point {
  const along = 1.5 * t * (1 - t) + t ** 3, beside = t * t * (3 - 2 * t);
  return [x1 + (x2 - x1) * along, y1 + (y2 - y1) * beside];
}

/** Room finds places for labels at which they cover no box and no other label. */
class Room {
  private readonly taken: [Point, Point][] = []; // centres, and half of the sizes

  take(centre: Point, half: Point): void { this.taken.push([centre, half]); }

  /** find returns the first place in a list that is free, and marks it as taken. If none is free,
   * it takes the first place. */
  find(places: Point[], half: Point): Point {
    const free = ([x, y]: Point) => !this.taken.some(([[x2, y2], [w, h]]) =>
      Math.abs(x - x2) < w + half[0] && Math.abs(y - y2) < h + half[1]);
    const found = places.find(free) ?? places[0]!;
    this.take(found, half);
    return found;
  }
}

function drawing(state: State): HTMLElement {
  const { services, talks } = state.data.messages;
  const nodes = [...new Set(services.map((s) => s.node))];
  const all = lines(talks);
  const { places, ways } = place(services.map((_, i) => String(i)), all);
  const everywhere = [...places.values(), ...[...ways.values()].flat()];
  const slots = Math.max(...everywhere.map((p) => p.slots));
  // All layers get the same number of slots. If a layer has fewer boxes, they are spread evenly.
  const spread = (p: Place): Place =>
    ({ layer: p.layer, slot: ((p.slot + 0.5) / p.slots) * slots - 0.5, slots });
  const under = (s: Service) => [
    s.port > 0 ? `${s.node} :${s.port}` : s.node, ...hostsOf(s),
  ].map((text) => shorten(text, 24));
  const boxWidth = Math.min(200, Math.max(104, ...services.flatMap((s) => [
    textWidth(shorten(nameOf(s), 20), 13, 600) + 34,
    ...under(s).map((text) => textWidth(text, 11) + 34),
  ])));
  const boxHeight = services.some((s) => s.hosts.length > 0) ? 70 : 54;
  const label = Math.max(60, ...all.flatMap((l) => labelOf(state, l)).map((t) =>
    textWidth(t, 11, 600) + 16));
  const isBack = (l: Line) => places.get(l.to)!.layer <= places.get(l.from)!.layer;
  const frame = new Frame(state.width, boxWidth, boxHeight, label,
    1 + Math.max(...everywhere.map((p) => p.layer)), slots, all.some(isBack));
  const most = Math.max(1, ...talks.map((t) => t.messages));
  const arrows: SVGElement[] = [], labels: SVGElement[] = [], room = new Room();
  services.forEach((_, i) =>
    room.take(frame.at(spread(places.get(String(i))!)), [boxWidth / 2, boxHeight / 2]));
  // A line that leads straight on has the fewest places for its label, so these labels are placed
  // first.
  const aside = (l: Line) => {
    const [a, b] = [spread(places.get(l.from)!), spread(places.get(l.to)!)];
    return ways.get(edgeKey(l))?.length ? 0 : Math.abs(a.slot - b.slot);
  };
  for (const l of [...all].sort((a, b) => aside(a) - aside(b))) {
    const from = services[l.there.from]!, to = services[l.there.to]!;
    const kind = from.node === to.node ? "local" : "remote";
    const a = spread(places.get(l.from)!);
    const b = l.from === l.to ? a : spread(places.get(l.to)!);
    const [path, middles] = frame.route(a, b, (ways.get(edgeKey(l)) ?? []).map(spread));
    const title = [l.there, ...(l.back ? [l.back] : [])].map((t) => about(state, t)).join("\n");
    arrows.push(svg("path", {
      d: path, class: `arrow ${kind}`, "marker-end": `url(#talk-${kind})`,
      "marker-start": l.back ? `url(#talk-${kind})` : null,
      "stroke-width": 1.2 + 3 * Math.sqrt(l.there.messages / most),
    }, svg("title", {}, title)));
    const texts = labelOf(state, l, frame.across ? "→←" : "↓↑");
    const middle = room.find(middles, [
      Math.max(...texts.map((t) => textWidth(t, 11, 600))) / 2 + 2, texts.length * 7,
    ]);
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
    const left = x - boxWidth / 2, top = y - boxHeight / 2, lines = under(s);
    const first = y - 3 - 8 * (lines.length - 1);
    return svg("g", {},
      svg("title", {}, `${nameOf(s)} on ${s.node}` + (s.port > 0 ? `, port ${s.port}` : "") +
        (s.hosts.length > 0 ? `; others know it as ${s.hosts.join(", ")}` : "")),
      svg("rect", { x: left, y: top, width: boxWidth, height: boxHeight, rx: 7, class: "actor" }),
      svg("rect", {
        x: left + 6, y: top + 8, width: 4, height: boxHeight - 16, rx: 2, fill: "currentcolor",
        class: `series-${nodes.indexOf(s.node) % 6}`,
      }),
      svg("text", { x: x + 5, y: first, "text-anchor": "middle", class: "actor-name" },
        shorten(nameOf(s), 20)),
      ...lines.map((text, k) => svg("text", {
        x: x + 5, y: first + 17 + 15 * k, "text-anchor": "middle", class: "actor-nodes",
      }, text)));
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

/** hostsOf returns the line of a box that has the service's host names, if there are any. */
function hostsOf(s: Service): string[] {
  const [first, ...more] = s.hosts;
  return first ? [more.length > 0 ? `${shorten(first, 20)} +${more.length}` : first] : [];
}

function about(state: State, t: Talk): string {
  const [from, to] = [t.from, t.to].map((i) => state.data.messages.services[i]!);
  return `${nameOf(from!)} on ${from!.node} → ${nameOf(to!)} on ${to!.node}: ` +
    `${compact(t.messages)} messages, ${bytes(t.bytes)}, ${compact(t.connections)} connections, ` +
    `median ${median(state, t)}`;
}
