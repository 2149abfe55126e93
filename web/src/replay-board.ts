// Draws the lanes of the nodes, with the events, the messages between them, and for each event a
// band that shows epsilon.

import { html, svg, textWidth } from "./dom.ts";
import type { Replay } from "./replaying.ts";

/** Scale is what the horizontal axis shows: the order of the replay, or the run's time. */
export type Scale = "order" | "time";

export interface BoardOptions {
  scale: Scale;
  focus: number; // the only node to show in full; -1: all
  width: number;
  take: (event: number) => void;
  choose: (node: number) => void;
  hz: number; // of the reference; 0: not known
  seconds: (cycles: number) => string;
  name: (event: number) => string;
  about: (event: number) => string;
}

const headHeight = 30; // as in replay.css
const column = 30, around = 120;

/** rowOf returns the height of a lane. The more lanes there are, the lower they are. */
const rowOf = (rows: number) => Math.min(Math.max(Math.floor(420 / rows), 44), 104);

/** shown returns the part of the order that is drawn: some events before the place that the replay
 * has reached, and some after it. */
function shown(replay: Replay): { order: number[]; first: number } {
  const rest = new Set(replay.taken);
  const order = replay.taken.slice();
  replay.data.events.forEach((_, i) => { if (!rest.has(i)) order.push(i); });
  const first = Math.max(0, replay.taken.length - around);
  return { order: order.slice(first, replay.taken.length + around), first };
}

/** board draws the lanes. It scrolls to the place that the replay has reached. */
export function board(replay: Replay, o: BoardOptions): HTMLElement {
  const { order, first } = shown(replay);
  const front = replay.front(), rows = replay.data.nodes.length;
  const rowHeight = rowOf(rows);
  const height = headHeight + rows * rowHeight + 8;
  const at = new Map<number, number>();
  const x = o.scale === "order" ? byOrder(replay, order, at) : byTime(replay, order, at, o.width);
  const y = (event: number) => headHeight + (replay.node(event) + 0.5) * rowHeight;
  const dim = (...events: number[]) =>
    o.focus >= 0 && !events.some((e) => replay.node(e) === o.focus) ? " dim" : "";
  const now = x.now(front);

  const drawing = svg("svg", {
    width: x.width, height, viewBox: `0 0 ${x.width} ${height}`, role: "img",
    "aria-label": `Time lines of ${rows} nodes`,
  });
  for (let row = 0; row < rows; row++) {
    const line = headHeight + (row + 0.5) * rowHeight;
    drawing.append(svg("line", { class: "track", x1: 0, x2: x.width, y1: line, y2: line }));
  }
  drawing.append(...x.ticks(o, first, height));
  const free = new Map(front.map((event, i) => [event, i]));
  for (const event of order) drawing.append(...band(event, x, y(event), free, dim(event)));
  for (const [from, to] of replay.data.messages) {
    if (!at.has(from) || !at.has(to)) continue;
    const done = replay.place[to]! < replay.done[replay.node(to)]!;
    const sent = replay.place[from]! < replay.done[replay.node(from)]!;
    const state = done ? " done" : sent ? " next" : "";
    drawing.append(arrow(at.get(from)!, y(from), at.get(to)!, y(to), state + dim(from, to)));
  }
  drawing.append(svg("line", { class: "now", x1: now, x2: now, y1: 18, y2: height }));
  let labelled = 0;
  // The events that may come next are drawn last, so that no other event covers them.
  for (const event of [...order.filter((e) => !free.has(e)), ...front.filter((e) => at.has(e))]) {
    const cx = at.get(event)!, cy = y(event);
    const done = replay.place[event]! < replay.done[replay.node(event)]!;
    const next = free.get(event);
    let state = done ? " done" : next === undefined ? "" : front.length > 1 ? " free" : " forced";
    if (done && replay.moved(replay.taken.indexOf(event))) state += " moved";
    const group = svg("g", { class: dim(event).trim() || null });
    group.append(svg("circle", {
      class: `event${state}`, cx, cy, r: next !== undefined ? 10 : 5.5,
    }));
    if (next !== undefined) {
      group.append(svg("text", {
        class: "number-on", x: cx, y: cy + 4, "text-anchor": "middle",
      }, next < 9 ? String(next + 1) : "·"));
      const label = o.name(event);
      if (labelled++ < 12 && textWidth(label, 11.5) < 260)
        group.append(svg("text", {
          class: "label", x: Math.max(cx, textWidth(label, 11.5) / 2 + 4), y: cy - 16,
          "text-anchor": "middle",
        }, label));
    }
    group.append(svg("circle", {
      class: "hit", cx, cy, r: 13, click: () => o.take(event), "data-event": event,
    }, svg("title", {}, `${o.name(event)}\n${o.about(event)}`)));
    drawing.append(group);
  }
  return lanes(replay, o, drawing, now);
}

/** lanes puts the names of the nodes beside the drawing. */
function lanes(replay: Replay, o: BoardOptions, drawing: SVGElement, now: number): HTMLElement {
  const view = html("div", { class: "view" }, drawing);
  const rowHeight = rowOf(replay.data.nodes.length);
  const button = (name: string, node: number) => {
    const made = html("button", {
      type: "button", title: `Show ${name} alone`, "aria-pressed": String(o.focus === node),
      "data-key": `node-${node}`, click: () => o.choose(node),
    }, name);
    made.style.height = `${rowHeight}px`;
    return made;
  };
  requestAnimationFrame(() => { view.scrollLeft = now - view.clientWidth * 0.55; });
  return html("div", { class: "lanes" },
    html("div", { class: "names" },
      ...replay.data.nodes.map(button)),
    view);
}

interface Axis {
  width: number;
  now: (front: number[]) => number;
  ticks: (o: BoardOptions, first: number, height: number) => SVGElement[];
  span: (event: number) => [number, number] | null; // of the band
}

/** byOrder puts each event of the order into a column of its own. */
function byOrder(replay: Replay, order: number[], at: Map<number, number>): Axis {
  order.forEach((event, i) => at.set(event, (i + 1) * column));
  const width = Math.max((order.length + 2) * column, 400);
  return {
    width,
    now: () => {
      const last = replay.taken[replay.taken.length - 1];
      return last === undefined ? column / 2 : at.get(last)! + column / 2;
    },
    ticks: (_, first, height) =>
      order.flatMap((_, i) => (first + i + 1) % 10 ? [] : [
        svg("line", {
          class: "tickline", x1: (i + 1) * column, x2: (i + 1) * column, y1: 22, y2: height,
        }),
        svg("text", {
          class: "tick", x: (i + 1) * column, y: 15, "text-anchor": "middle",
        }, String(first + i + 1)),
      ]),
    span: (event) => {
      let left = order.indexOf(event), right = left;
      const own = left;
      while (left > 0 && !replay.before(order[left - 1]!, event)) left--;
      while (right + 1 < order.length && !replay.before(event, order[right + 1]!)) right++;
      return left === own && right === own
        ? null
        : [(left + 0.55) * column, (right + 1.45) * column];
    },
  };
}

/** byTime puts each event at the middle of its interval. */
function byTime(
  replay: Replay, order: number[], at: Map<number, number>, available: number
): Axis {
  const events = replay.data.events;
  const ends = order.map((e) => [events[e]![3], events[e]![4]] as const);
  const lo = Math.min(...ends.map((e) => e[0])), hi = Math.max(...ends.map((e) => e[1]));
  // The picture is so wide that neighbouring events do not touch, up to a largest width.
  const mids = ends.map(([a, b]) => (a + b) / 2).sort((a, b) => a - b);
  const gaps = mids.slice(1).map((m, i) => m - mids[i]!).sort((a, b) => a - b);
  const typical = gaps[Math.floor(gaps.length / 2)] || 1;
  const wanted = Math.min(((hi - lo) / typical) * 24, 24_000);
  const width = Math.max(available - 500, wanted, 400);
  const scale = (v: number) => 24 + ((v - lo) / Math.max(hi - lo, 1)) * (width - 48);
  order.forEach((e) => at.set(e, scale((events[e]![3] + events[e]![4]) / 2)));
  return {
    width,
    now: (front) => {
      const next = front.length ? Math.min(...front.map((e) => at.get(e) ?? width)) : width;
      return Math.max(next - 14, 4);
    },
    ticks: (o, _, height) => ticksOfTime(lo, hi, width, scale, o, height),
    span: (e) => [scale(events[e]![3]), scale(events[e]![4])],
  };
}

function ticksOfTime(
  lo: number, hi: number, width: number, scale: (v: number) => number, o: BoardOptions,
  height: number
): SVGElement[] {
  // Ticks are at round times or, if the frequency of the counter is not known, at round numbers of
  // cycles.
  const unit = o.hz ? o.hz / 1e9 : 1;
  const step = niceStep((hi - lo) / unit / (width / 140)) * unit;
  const all: SVGElement[] = [];
  for (let v = Math.ceil(lo / step) * step; v <= hi; v += step) {
    all.push(
      svg("line", { class: "tickline", x1: scale(v), x2: scale(v), y1: 22, y2: height }),
      svg("text", { class: "tick", x: scale(v), y: 15, "text-anchor": "middle" }, o.seconds(v)));
  }
  return all;
}

function niceStep(raw: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(raw, 1)));
  return [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw) ?? power;
}

/**
 * band draws what epsilon leaves open about an event. If the axis shows time, the band is the
 * interval in which the event happened. If the axis shows the order, the band covers the events
 * with which this event could change places.
 */
function band(
  event: number, x: Axis, y: number, free: Map<number, number>, dim: string
): SVGElement[] {
  const span = x.span(event);
  if (!span) return [];
  const front = free.has(event) && free.size > 1 ? " front" : "";
  return [svg("rect", {
    class: `band${front}${dim}`, x: span[0], width: Math.max(span[1] - span[0], 1), y: y - 13,
    height: 26, rx: 4,
  })];
}

function arrow(x1: number, y1: number, x2: number, y2: number, state: string): SVGElement {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const cut = 7 / length;
  const ex = x2 - (x2 - x1) * cut, ey = y2 - (y2 - y1) * cut;
  const ux = (x2 - x1) / length, uy = (y2 - y1) / length;
  const head = `M${ex - 7 * ux + 3.5 * uy},${ey - 7 * uy - 3.5 * ux}L${ex},${ey}` +
    `L${ex - 7 * ux - 3.5 * uy},${ey - 7 * uy + 3.5 * ux}`;
  return svg("path", { class: `message${state}`, d: `M${x1},${y1}L${ex},${ey}${head}` });
}

export function legend(scale: Scale): HTMLElement {
  const entry = (kind: string, text: string) =>
    html("span", { class: kind }, html("i", { "aria-hidden": "true" }), text);
  return html("div", { class: "legend" },
    entry("done", "replayed"),
    entry("moved", "replayed earlier than in the run"),
    entry("forced", "forced: the only one that can come next"),
    entry("free", "free: any of these may come next"),
    entry("eps", scale === "time"
      ? "ε: when the event surely happened"
      : "ε: the places that the event could take"));
}
